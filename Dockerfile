# The command of `make run` in a container.
#   CPU:   docker build -t pdebench-hss . && docker run --rm -v "$PWD/boards:/boards" pdebench-hss
#   CUDA:  docker build -t pdebench-hss --build-arg BASE=nvidia/cuda:12.8.1-runtime-ubuntu24.04 .
#          docker run --rm --gpus all -v "$PWD/boards:/boards" pdebench-hss
ARG BASE=ubuntu:24.04
FROM ${BASE}
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3=3.12.* python3-venv=3.12.* \
    && rm -rf /var/lib/apt/lists/* \
    && python3 -m venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH
WORKDIR /opt/pdebench-hss
COPY . .
RUN pip install --no-cache-dir -c constraints.txt .
WORKDIR /boards
VOLUME /boards
ENTRYPOINT ["pdebench-hss"]
CMD ["run", "--models", "all", "--tasks", "gray_scott_inverse", "--out", "/boards/latest"]
