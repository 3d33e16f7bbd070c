"""The API: types, CRD, rules, warnings, defaults, conditions and reasons."""
