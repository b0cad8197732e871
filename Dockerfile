# The daemon's image: the first stage builds and installs the wheel, the last stage only runs it. If your pip
# or npm need own settings (another index, a certificate), pass them as secrets, which are not stored in the
# image: docker build --secret id=pip,src=pip.conf --secret id=npm,src=.npmrc .
FROM python:3.11-slim@sha256:db3ff2e1800a8581e2c48a27c3995339d47bdf046da21c7627accd3d51053a93 AS build
WORKDIR /src
COPY constraints constraints
ARG BY_HASH="--no-cache-dir --disable-pip-version-check --no-deps --require-hashes --only-binary :all:"
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    python -m venv /opt/build \
    && /opt/build/bin/pip install $BY_HASH --requirement constraints/build.txt \
    && python -m venv /opt/qos-oracle \
    && /opt/qos-oracle/bin/pip install $BY_HASH --requirement constraints/run.txt
# gcc compiles the optional native code; only this stage contains it.
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev
COPY . .
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --no-index --wheel-dir /opt/wheel . ./native \
    && /opt/qos-oracle/bin/pip install --no-deps --no-index /opt/wheel/*.whl \
    && /opt/qos-oracle/bin/pip check

# A local chain for experiments: the same Anvil that the tests use.
FROM node:22-slim@sha256:83f487e0a63425e5b4d146fb5e5be574bcbe1b7b843d3ebafdd95eaf7767a7e5 AS chain
WORKDIR /opt/chain
COPY package.json package-lock.json .npmrc ./
RUN --mount=type=secret,id=npm npm ci --userconfig /run/secrets/npm
USER node
EXPOSE 8545
ENTRYPOINT ["node_modules/.bin/anvil", "--host", "0.0.0.0", "--prune-history", "2000"]
CMD ["--block-time", "2"]

FROM python:3.11-slim@sha256:db3ff2e1800a8581e2c48a27c3995339d47bdf046da21c7627accd3d51053a93 AS daemon
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/qos-oracle qos-oracle
COPY --from=build /opt/qos-oracle /opt/qos-oracle
ENV PATH=/opt/qos-oracle/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    QOS_ORACLE_CONFIG=/etc/qos-oracle/config.toml \
    QOS_ORACLE_WEB__HOST=0.0.0.0
USER qos-oracle
WORKDIR /var/lib/qos-oracle
VOLUME /var/lib/qos-oracle
EXPOSE 8080
HEALTHCHECK --interval=15s --timeout=3s --start-period=30s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8080/livez', timeout=2)"]
# Stops at a commit boundary, within 5 seconds.
STOPSIGNAL SIGTERM
ENTRYPOINT ["qos-oracle"]
CMD ["run"]
