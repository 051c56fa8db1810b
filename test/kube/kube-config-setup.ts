import { writeFile } from 'node:fs/promises'
import type { IncomingMessage, RequestListener } from 'node:http'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import type { TLSSocket } from 'node:tls'
import { loadKubeConfig } from '../../src/kube/kube-config.ts'
import { fromKubeConfig, type KubeConfigTransportOptions } from '../../src/kube/kube-config-transport.ts'
import type { ApiResponse, Transport } from '../../src/kube/transport.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { type LogLine, memoryLogger } from '../../src/telemetry/logger.ts'
import { tempDir } from '../support/temp-dir.ts'
import { certificate, certificateFile, type LoopbackServer, serverTls, startServer } from './loopback-server.ts'

export const never = new AbortController().signal
export const request = { method: 'GET', path: '/', query: [], headers: {} } as const

export const ask = (transport: Transport): Promise<ApiResponse> => transport.send(request, never)
export const bodyFrom = async (transport: Transport): Promise<unknown> => {
  const response = await ask(transport)
  return 'body' in response ? response.body : undefined
}

/** The credentials that a request shows. */
export function shown(request: IncomingMessage): string {
  const { subject } = (request.socket as TLSSocket).getPeerCertificate()
  return `${request.headers.authorization ?? ''}|${subject?.CN ?? ''}`
}

export const mutualTls = {
  ...serverTls('loopback'),
  ca: certificate('ca.crt'),
  requestCert: true,
  rejectUnauthorized: false,
}

export interface Setup {
  readonly directory: string
  readonly kubeconfig: string
  /** Writes the kubeconfig again, with other fields of its user. */
  write(user: string): Promise<void>
  readonly server: LoopbackServer
  readonly clock: VirtualClock
  /** Without the lines about a slow plugin: plugins take real time, which is long on a busy machine. */
  readonly logger: { readonly lines: readonly LogLine[] }
  readonly transport: Transport
}

/** A kubeconfig of one context; `user` is a YAML flow mapping without braces. */
export function kubeconfigOf(
  server: string,
  user: string,
  ca = `certificate-authority: ${certificateFile('ca.crt')}`,
): string {
  return `current-context: dev
clusters: [{ name: c, cluster: { server: "${server}", ${ca} } }]
users: [{ name: u, user: { ${user} } }]
contexts: [{ name: dev, context: { cluster: c, user: u } }]`
}

/**
 * A server, a kubeconfig for it in a directory that `prepare` fills, and a transport from it on a clock of the test.
 */
export async function setUp(
  t: TestContext,
  listener: RequestListener,
  user: (directory: string) => string | Promise<string>,
  { startWallMs, ...options }: KubeConfigTransportOptions & { readonly startWallMs?: number } = {},
): Promise<Setup> {
  const directory = await tempDir(t)
  const server = await startServer(t, listener, { tls: mutualTls })
  const kubeconfig = join(directory, 'config')
  const write = (user: string): Promise<void> => writeFile(kubeconfig, kubeconfigOf(server.url.origin, user))
  await write(await user(directory))
  const { config, access, reload } = await loadKubeConfig({ kubeconfig, environment: {} })
  const clock = new VirtualClock(startWallMs === undefined ? {} : { startWallMs })
  const logger = memoryLogger()
  const transport = fromKubeConfig(config, { access, reload, clock: clock.view(), logger, ...options })
  t.after(() => transport.close())
  const withoutSlow = {
    get lines() {
      return logger.lines.filter(({ message }) => !/^exec plugin .* has not answered yet/.test(message))
    },
  }
  return { directory, kubeconfig, write, server, clock, logger: withoutSlow, transport }
}

export const echo: RequestListener = (request, response) => {
  response.end(shown(request))
}

export async function writePair(directory: string, name: string): Promise<void> {
  await writeFile(join(directory, 'client.crt'), certificate(`${name}.crt`))
  await writeFile(join(directory, 'client.key'), certificate(`${name}.key`))
}
