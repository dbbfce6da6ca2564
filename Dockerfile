# The service, built from this repository alone: docker build -t stamo .
# For a torch without CUDA give its index: --build-arg PIP_EXTRA_INDEX_URL=...
FROM python:3.11-slim AS build
ARG PIP_EXTRA_INDEX_URL=""
WORKDIR /src
COPY pyproject.toml constraints.txt MANIFEST.in README.md LICENSE ./
COPY src ./src
RUN python -m venv /opt/stamo \
    && /opt/stamo/bin/pip install --no-cache-dir --constraint constraints.txt '.[torch,web,serve,encoder,nif]'

FROM python:3.11-slim
RUN useradd --system --uid 10001 --home-dir /data --shell /usr/sbin/nologin stamo \
    && install --directory --owner=stamo --group=stamo /data
COPY --from=build /opt/stamo /opt/stamo
ENV PATH=/opt/stamo/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    OMP_NUM_THREADS=1 \
    MPLCONFIGDIR=/tmp/matplotlib
USER 10001
WORKDIR /data
VOLUME /data
EXPOSE 8017
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8017/healthz', timeout=3)"]
ENTRYPOINT ["stamo"]
CMD ["serve", "--kb", "kb", "--model", "deeped.safetensors", "--workspaces", "workspaces", "--host", "0.0.0.0"]
