# The console and its runner in one container, to be served to a lab whose people sign in. docs/deployment.md tells the rest:
#   docker build -t parallab .
#   docker run --rm -it -v parallab-home:/lab parallab python -m engine users add ada --role admin
#   docker run -d --shm-size 2g --gpus all -p 127.0.0.1:8501:8501 -v parallab-home:/lab -v parallab-data:/data parallab
# Without GPUs, and without CUDA: --build-arg TORCH_INDEX=<the index of torch's CPU wheels>.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
ARG TORCH_INDEX=""
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /build
COPY requirements.txt ./
COPY locks locks
COPY deploy/install.py deploy/install.py
RUN python -m venv /opt/parallab/.venv \
 && /opt/parallab/.venv/bin/python -m deploy.install --torch-index "${TORCH_INDEX}"

FROM ${BASE}
LABEL org.opencontainers.image.title="Parallab" \
      org.opencontainers.image.description="Launch distributed-training experiments from the browser, watch them live, compare them across people." \
      org.opencontainers.image.licenses="MIT"
# tini reaps what ends without a parent, and hands signals on; its version is that of the base image's release.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends tini \
 && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home --uid 1000 parallab \
 && install -d -o parallab -g parallab -m 700 /lab /data
WORKDIR /opt/parallab
COPY --from=build /opt/parallab/.venv .venv
COPY LICENSE README.md ./
COPY .streamlit .streamlit
COPY app app
COPY engine engine
COPY pages pages
RUN .venv/bin/python -m compileall -q app engine pages

USER 1000
# NVIDIA's container runtime hands in driver and NVML by the last two; without it they say nothing.
ENV PATH=/opt/parallab/.venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PARALLAB_HOME=/lab \
    PARALLAB_DATA=/data \
    PARALLAB_ADDRESS=0.0.0.0 \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
VOLUME ["/lab", "/data"]
EXPOSE 8501
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s CMD ["python", "-m", "app.web.port_check"]
ENTRYPOINT ["tini", "--"]
# Ends with exit code 2 and the reason in a lab where nobody has an account yet: this address reaches beyond loopback.
CMD ["python", "-m", "app"]
