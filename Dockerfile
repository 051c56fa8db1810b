# The image of the command line: docker build --tag apiserver-bootstrap:0.1.0 .
# It needs a container engine, and was not built here; test/floor/image.test.ts takes its steps in a plain folder.
#
# Pin the base by digest: docker buildx imagetools inspect node:24.21.0-slim --format '{{.Manifest.Digest}}'
# and then --build-arg NODE_IMAGE=node@sha256:...
ARG NODE_IMAGE=node:24.21.0-slim

FROM ${NODE_IMAGE} AS build
WORKDIR /src
COPY . .
RUN npm ci
RUN npm run build
RUN npm run --silent sbom > dist/sbom.cdx.json

FROM ${NODE_IMAGE}
COPY --from=build /src/package.json /src/LICENSE /opt/apiserver-bootstrap/
COPY --from=build /src/config/drills /opt/apiserver-bootstrap/config/drills
COPY --from=build /src/dist/cli.js /src/dist/THIRD-PARTY-NOTICES.txt /src/dist/sbom.cdx.json /opt/apiserver-bootstrap/dist/
COPY --from=build /src/dist/chunks /opt/apiserver-bootstrap/dist/chunks
RUN ["ln", "-s", "/opt/apiserver-bootstrap/dist/cli.js", "/usr/local/bin/apiserver-bootstrap"]
USER 65532:65532
ENTRYPOINT ["apiserver-bootstrap"]
CMD ["--help"]
