# maci2 on a CPU:  docker build -t maci2 .  &&  docker run --rm -v "$PWD:/data" maci2 demo
FROM python:3.11-slim AS wheel
WORKDIR /source
COPY packages/maci2 packages/maci2
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels packages/maci2

FROM python:3.11-slim
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir /wheels/*.whl && rm -r /wheels
# Kernels are compiled for the processor of the machine that builds; another one compiles its own.
RUN maci2 compile
RUN useradd --create-home maci2
USER maci2
WORKDIR /data
ENTRYPOINT ["maci2"]
CMD ["--help"]
