# synthdp in a small image: docker build -t synthdp . && docker run --rm --network none -v "$PWD/out:/data" synthdp demo
FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY synthdp ./synthdp
RUN python -m venv /opt/synthdp && /opt/synthdp/bin/pip install --no-cache-dir --no-compile --only-binary :all: .

FROM python:3.13-slim
COPY --from=build /opt/synthdp /opt/synthdp
RUN useradd --uid 1000 --create-home synthdp && mkdir /data && chown synthdp /data
USER synthdp
WORKDIR /data
ENV PATH=/opt/synthdp/bin:$PATH PYTHONDONTWRITEBYTECODE=1
ENTRYPOINT ["synthdp"]
CMD ["--help"]
