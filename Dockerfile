# One image for every role: `voidbot run gateway|worker|scheduler|web`, or `voidbot up` for all of them.
FROM python:3.11-slim AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
RUN python -m venv /opt/venv
WORKDIR /app
COPY requirements.lock requirements-qdrant.lock ./
RUN /opt/venv/bin/pip install --require-hashes --no-deps -r requirements.lock
# What QDRANT_URL needs: docker compose build --build-arg QDRANT=yes
ARG QDRANT=
RUN test -z "$QDRANT" || /opt/venv/bin/pip install --require-hashes --no-deps -r requirements-qdrant.lock
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY bot bot
COPY core core
COPY migrations migrations
COPY prompts prompts
COPY agents agents
COPY data data
# Editable: prompts, roles and migrations are found beside the code, as in a checkout.
RUN /opt/venv/bin/pip install --no-deps --no-build-isolation -e . \
    && /opt/venv/bin/python -m compileall -q bot core

FROM python:3.11-slim
RUN groupadd --system --gid 10001 voidbot \
    && useradd --system --uid 10001 --gid voidbot --home-dir /data --no-create-home --shell /usr/sbin/nologin voidbot \
    && install -d -o voidbot -g voidbot -m 0700 /data
COPY --from=build /opt/venv /opt/venv
COPY --from=build /app /app
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    VOIDBOT_HOME=/data
WORKDIR /app
USER 10001:10001
VOLUME /data
EXPOSE 8642
STOPSIGNAL SIGTERM
# Live, not ready: restarting this process does not mend a database that is down.
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8642/healthz', timeout=4)"]
ENTRYPOINT ["voidbot"]
CMD ["up", "--no-chat"]
