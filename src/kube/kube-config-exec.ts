import { spawn } from 'node:child_process'
import { messageOf } from '../runtime/errors.ts'
import { validitiesIn } from '../runtime/system-pem.ts'
import { killGroup } from '../runtime/system-process-group.ts'
import { tryParseTime } from '../runtime/time-format.ts'
import type { Logger } from '../telemetry/logger.ts'
import { oneLine, withoutSecrets } from '../telemetry/secrets.ts'
import { KubeError } from './errors.ts'
import { type Access, keyPairProblem, tokenProblem } from './kube-config-access.ts'
import { type AskForGrant, type Grant, tokenExpiry } from './kube-config-renewal.ts'
import { isRecord } from './resources.ts'

export interface ExecPluginConfig {
  readonly command: string
  readonly apiVersion: string
  readonly args?: readonly string[] | null | undefined
  readonly env?: readonly { readonly name: string; readonly value?: string | null | undefined }[] | null | undefined
  readonly provideClusterInfo?: boolean | undefined
}

export interface ExecPluginOptions {
  readonly config: ExecPluginConfig
  readonly userName: string
  /** Called before each run of a plugin that requests this information. */
  readonly clusterInfo: () => unknown
  readonly timeoutMs: number
  readonly signal: AbortSignal
  readonly logger: Logger
}

/** If the first answer takes longer, in ms, we log that requests wait. Otherwise the API server would seem to hang. */
const SLOW_MS = 1_000
const MAX_OUTPUT_LENGTH = 1024 * 1024
/** How long after a plugin's end its pipes may stay open, in ms. */
const PIPES_OPEN_MS = 500

/**
 * Returns a function that runs a credential plugin (client-go's `exec` authentication); `Renewal` decides when. We do
 * not use client-node's code: test/kube/client-node.test.ts shows what it lacks.
 */
export function execPlugin(options: ExecPluginOptions): AskForGrant {
  const { config, userName, clusterInfo, timeoutMs, signal, logger } = options
  const plugin = `exec plugin ${JSON.stringify(config.command)} of user ${JSON.stringify(userName)}`
  const given = Object.fromEntries((config.env ?? []).map(({ name, value }) => [name, value ?? '']))
  const environment = (): NodeJS.ProcessEnv => {
    const spec = { interactive: false, ...(config.provideClusterInfo === true ? { cluster: clusterInfo() } : {}) }
    const info = { apiVersion: config.apiVersion, kind: 'ExecCredential', spec }
    return { ...process.env, ...given, KUBERNETES_EXEC_INFO: JSON.stringify(info) }
  }
  let isLogged = false
  const logWaiting = (): void => {
    isLogged = true
    logger.warn({ timeoutMs }, `${plugin} has not answered yet; requests to the API server wait for it`)
  }
  return async (held) => {
    const waiting = held === undefined && !isLogged ? setTimeout(logWaiting, SLOW_MS) : undefined
    try {
      return readCredential(await runPlugin(config, environment(), timeoutMs, signal), config.apiVersion)
    } catch (error) {
      throw new KubeError('NoCredentials', `${plugin} ${messageOf(error)}`)
    } finally {
      clearTimeout(waiting)
    }
  }
}

/**
 * Resolves with the plugin's standard output. Rejects with an Error whose message is the rest of a sentence that begins
 * with the plugin's name.
 */
function runPlugin(
  config: ExecPluginConfig,
  env: Record<string, string | undefined>,
  timeoutMs: number,
  stop: AbortSignal,
): Promise<string> {
  return new Promise((resolve, reject) => {
    const group = process.platform !== 'win32'
    // The plugin gets its own process group, so that the processes that a wrapper script starts can be ended too.
    const child = spawn(config.command, [...(config.args ?? [])], {
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: group,
      windowsHide: true,
    })
    let stdout = ''
    let stderr = ''
    const settle = (error: Error | undefined): void => {
      clearTimeout(timer)
      stop.removeEventListener('abort', onStop)
      if (error === undefined) resolve(stdout)
      else reject(error)
    }
    const end = (reason: string): void => {
      if (child.pid !== undefined && group) killGroup(child.pid)
      else child.kill('SIGKILL')
      child.stdout?.destroy()
      child.stderr?.destroy()
      settle(new Error(reason))
    }
    const timer = setTimeout(() => end(`did not answer within ${timeoutMs} ms`), timeoutMs)
    const onStop = (): void => end('was stopped: the connection is closed')
    stop.addEventListener('abort', onStop, { once: true })
    child.on('error', (error: NodeJS.ErrnoException) => {
      settle(new Error(error.code === 'ENOENT' ? 'is not installed: no such command' : `cannot be run (${error.code})`))
    })
    // If this process may open no more files, Node returns a child without pipes, and then emits its error.
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      stdout += text
      if (stdout.length > MAX_OUTPUT_LENGTH) end(`wrote more than ${MAX_OUTPUT_LENGTH} characters`)
    })
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      stderr = (stderr + text).slice(0, MAX_OUTPUT_LENGTH)
    })
    const ended = (code: number | null, signal: string | null): void => {
      clearTimeout(closing)
      if (code === 0) {
        settle(undefined)
        return
      }
      // Plugins may write their input and their credentials to standard error.
      const words = oneLine(withoutSecrets(stderr).trim().split('\n')[0] ?? '').slice(0, 200)
      settle(new Error(`failed with ${signal ?? `exit code ${code}`}${words === '' ? '' : `: ${words}`}`))
    }
    let closing: NodeJS.Timeout | undefined
    child.on('close', ended)
    // A plugin may start an agent that keeps the pipes open, as ssh does. What the plugin wrote before its own end
    // counts.
    child.on('exit', (code, signal) => {
      closing = setTimeout(() => {
        child.stdout?.destroy()
        child.stderr?.destroy()
        ended(code, signal)
      }, PIPES_OPEN_MS)
    })
    if (stop.aborted) onStop()
  })
}

function readCredential(output: string, apiVersion: string): Grant {
  let answer: unknown
  try {
    answer = JSON.parse(output)
  } catch {
    throw new Error('returned output that is not JSON')
  }
  if (!isRecord(answer) || answer.kind !== 'ExecCredential') throw new Error('did not return an ExecCredential')
  if (answer.apiVersion !== apiVersion) throw new Error(`returned an apiVersion other than ${apiVersion}`)
  const { status } = answer
  if (!isRecord(status)) throw new Error('returned an ExecCredential without status')
  const { token, clientCertificateData: cert, clientKeyData: key, expirationTimestamp: expires } = status
  const hasCertificate = isText(cert) && isText(key)
  if (isText(cert) !== isText(key))
    throw new Error('returned a client certificate without a key, or a key without a certificate')
  if (!isText(token) && !hasCertificate) throw new Error('returned neither a token nor a client certificate')
  const unfit = isText(token) ? tokenProblem(token) : undefined
  if (unfit !== undefined) throw new Error(`returned a token that ${unfit}`)
  if (hasCertificate) {
    const problem = keyPairProblem(cert, key)
    if (problem !== undefined) throw new Error(`returned a client certificate that cannot be used: ${problem}`)
  }
  const ends = isText(token) ? tokenExpiry(token) : undefined
  return {
    authorization: isText(token) ? `Bearer ${token}` : undefined,
    clientCertificate: hasCertificate ? { cert, key } : undefined,
    expiresMs: isText(expires) ? expiry(expires) : (ends ?? (hasCertificate ? validitiesIn(cert)[0]?.toMs : undefined)),
  }
}

function expiry(text: string): number {
  const ms = tryParseTime(text)
  if (ms === undefined) throw new Error('returned an expirationTimestamp that is not a time')
  return ms
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}

/** The cluster information for exec plugins, with the field names of `client.authentication.k8s.io/v1`. `ca`: PEM. */
export function clusterInfo({ cluster }: Access, ca: string | undefined): unknown {
  return {
    server: cluster.server,
    'tls-server-name': cluster.tlsServerName,
    'insecure-skip-tls-verify': cluster.skipTLSVerify,
    'certificate-authority-data': ca === undefined ? undefined : Buffer.from(ca).toString('base64'),
    'proxy-url': cluster.proxyUrl,
    config: cluster.execConfig ?? null,
  }
}
