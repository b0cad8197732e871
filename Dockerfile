# The daemon: the first stage builds the wheel and installs it, the last one only runs it.
FROM python:3.11-slim AS build
WORKDIR /src
COPY . .
RUN python -m venv /opt/qos-oracle \
    && PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt \
       /opt/qos-oracle/bin/pip install --no-cache-dir --disable-pip-version-check .

# A local chain to try things on: the same Anvil that the tests use.
FROM node:22-slim AS chain
WORKDIR /opt/chain
COPY package.json package-lock.json .npmrc ./
RUN npm ci
USER node
EXPOSE 8545
ENTRYPOINT ["node_modules/.bin/anvil", "--host", "0.0.0.0", "--prune-history", "2000"]
CMD ["--block-time", "2"]

FROM python:3.11-slim AS daemon
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
