import { randomBytes } from 'node:crypto'
import { lstat, readFile, rm, writeFile } from 'node:fs/promises'
import { networkInterfaces } from 'node:os'
import { isRecord, type KubeObject, pathOf } from '../kube/resources.ts'
import type { ApiResponse } from '../kube/transport.ts'
import { isLoopbackName } from '../net/address.ts'
import { messageOf } from '../runtime/errors.ts'
import { systemClock, systemRandom } from '../runtime/system-clock.ts'
import { type Logger, silentLogger } from '../telemetry/logger.ts'
import { type ApiServer, type ApiServerOptions, createApiServer, inProcessTransport } from './api-server.ts'
import { type Faults, faultyTransport } from './faults.ts'
import { type ApiServerLimits, serveApi } from './http-api-server.ts'
import { selfSignedCertificate } from './http-certificate.ts'
import { NOT_ENFORCED } from './resources/custom-resource-definitions.ts'
import { type ObjectReference, type WaitOptions, waitForObject } from './wait-for.ts'

export interface StartApiServerOptions extends Partial<ApiServerOptions> {
  /** An address of this machine, or a name of such an address. @default '127.0.0.1' */
  readonly host?: string
  /** @default 0, which selects a free port */
  readonly port?: number
  /**
   * Objects to create at the start, in this order, with their status. If one is refused, the start fails.
   * @default the namespace `default`
   */
  readonly objects?: readonly object[]
  /**
   * CustomResourceDefinitions, as objects or as YAML. Their kinds are served from the start. Their validation, CEL
   * rules and conversion are not enforced, which a line of the log states for each definition.
   */
  readonly crds?: readonly (object | string)[]
  /** The limits of the port. @default enough for hundreds of clients */
  readonly limits?: Partial<ApiServerLimits>
  /** @default silent */
  readonly logger?: Logger
}

/** An embedded API server that listens. */
export interface StartedApiServer extends AsyncDisposable {
  /** `https://HOST:PORT`. HOST is `localhost` if the server listens on all addresses. */
  readonly url: string
  readonly port: number
  /** The bearer token that clients need for all paths but those of health and version. */
  readonly token: string
  /** The server's self-signed certificate, as PEM. */
  readonly certificate: string
  /**
   * A kubeconfig as text, for client-node's `loadFromString`. kubectl and client-go need a file:
   * {@link writeKubeconfig}.
   */
  readonly kubeconfig: string
  /** The server itself: for requests that bypass HTTP and the faults, and to set the health checks. */
  readonly server: ApiServer
  /** Injects faults between clients and the server. At first there are no faults. */
  readonly faults: Faults
  /**
   * Resolves to the first state of an object for which `condition` is true. Starts with the present state and misses no
   * later state while its watch lasts. When the watch ends, such as by a compaction or a new definition of the kind,
   * starts again with the state at that time. The state is undefined while the object does not exist: to wait for a
   * deletion, pass `(object) => object === undefined`. Injected faults have no effect. The object is frozen; its times
   * are strings.
   * @param condition by default, that the object exists
   * @throws ConditionNotMet after `timeoutMs`, with the last state; TypeError if the kind is not served, if a name or
   * needed namespace is missing, or if the condition is async; what `condition` throws; the reason of `signal`; an
   * Error when the server closes
   */
  waitFor<T extends object = KubeObject>(
    object: ObjectReference,
    condition?: (object: T | undefined) => boolean,
    options?: WaitOptions,
  ): Promise<T | undefined>
  /**
   * Writes the kubeconfig to a new file that only its owner can read; `close` deletes it. Replaces a file that
   * `writeKubeconfig` of any server has written; rejects with EEXIST if another file is there.
   */
  writeKubeconfig(file: string): Promise<void>
  /** Ends all watches and connections, frees the port, and deletes the kubeconfig files. May be called twice. */
  close(): Promise<void>
}

const YEAR_MS = 365 * 24 * 3_600_000
const WAIT_MS = 4000

/**
 * Starts an embedded API server for tests, development and drills, with a new certificate and token; by default on a
 * free loopback port. Has no controllers, but empties namespaces that are being deleted, and removes the objects of
 * deleted CustomResourceDefinitions. Keeps its state in memory.
 * @throws ListenError; RefusedObject; TypeError for invalid options
 */
export async function startApiServer(options: StartApiServerOptions = {}): Promise<StartedApiServer> {
  const {
    host = '127.0.0.1',
    port = 0,
    logger = silentLogger,
    objects = [defaultNamespace],
    crds = [],
    limits,
    ...rest
  } = options
  // Checked here, because tests in JavaScript have no compiler.
  for (const [name, list] of Object.entries({ objects, crds })) {
    if (!Array.isArray(list)) throw new TypeError(`${name} must be a list`)
  }
  const clock = rest.clock ?? systemClock
  const random = rest.random ?? systemRandom()
  const server = createApiServer({ fieldValidation: 'Warn', ...rest, clock, random })
  for (const [index, definition] of crds.entries()) {
    for (const object of await definitionsIn(definition, `crds[${index}]`)) {
      const { metadata } = await seed(server, object, `crds[${index}]`)
      logger.info({ definition: metadata?.name }, NOT_ENFORCED)
    }
  }
  for (const [index, object] of objects.entries()) await seed(server, object, `objects[${index}]`)
  const transport = faultyTransport(inProcessTransport(server), { clock, random })
  const token = randomBytes(32).toString('base64url')
  const isEverywhere = ['0.0.0.0', '::'].includes(host)
  const others = isEverywhere ? ownAddresses() : isLoopbackName(host) ? [] : [host]
  const names = ['localhost', '127.0.0.1', '::1', ...others]
  const tls = selfSignedCertificate(names, YEAR_MS)
  const serving = await serveApi({ send: transport.send, host, port, tls, token, limits, logger })
  // The certificate names neither 0.0.0.0 nor ::, which stand for all addresses.
  const url = isEverywhere ? `https://localhost:${serving.port}` : serving.url
  const kubeconfig = kubeconfigOf(url, tls.certificate, token)
  const closing = new AbortController()
  let closed: Promise<void> | undefined
  const close = (): Promise<void> => {
    closing.abort(new Error('the API server is closing'))
    closed ??= serving.close().then(async () => {
      await transport.close()
      const ends = await Promise.allSettled(files)
      const written = ends.flatMap((end) => (end.status === 'fulfilled' ? [end.value] : []))
      await Promise.all(written.map((file) => removeOwn(file, OWN_FILE + kubeconfig)))
    })
    return closed
  }
  /** The kubeconfig files, including those that are still being written. */
  const files: Promise<string>[] = []
  return {
    url,
    port: serving.port,
    token,
    certificate: tls.certificate,
    kubeconfig,
    server,
    faults: transport.faults,
    waitFor: <T extends object>(
      reference: ObjectReference,
      condition: (object: T | undefined) => boolean = (object) => object !== undefined,
      { timeoutMs = WAIT_MS, signal }: WaitOptions = {},
    ) =>
      waitForObject(server, reference, condition as (object: object | undefined) => boolean, {
        // The real clock, because the clients are real even if the server's own time is simulated.
        clock: systemClock,
        timeoutMs,
        signals: [closing.signal, signal],
      }) as Promise<T | undefined>,
    async writeKubeconfig(file) {
      // After closing, nothing would delete the file.
      closing.signal.throwIfAborted()
      const writing = writeNewFile(file, OWN_FILE + kubeconfig).then(() => file)
      files.push(writing)
      await writing
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** The addresses of this machine beside loopback; link-local addresses without their zone. */
function ownAddresses(): readonly string[] {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? [])
  return [...new Set(all.filter(({ internal }) => !internal).map(({ address }) => address.split('%')[0] ?? ''))]
}

/** The default of `objects`. */
export const defaultNamespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'default' } }

/** An object that should exist from the start was refused. */
export class RefusedObject extends Error {
  override readonly name = 'RefusedObject'
  readonly code = 'RefusedObject'
}

const never = new AbortController().signal

/**
 * Creates an object, with its status, and returns it as stored. `place` identifies an object without a name in errors.
 * @throws RefusedObject
 */
async function seed(server: ApiServer, object: unknown, place: string): Promise<KubeObject> {
  const { apiVersion, kind, metadata, status } = (isRecord(object) ? object : {}) as KubeObject & {
    readonly status?: unknown
  }
  if (!apiVersion || !kind || !metadata?.name) {
    throw new RefusedObject(`${place} must be an object with apiVersion, kind and metadata.name`)
  }
  const { namespace, name } = metadata
  const title = `${kind} ${namespace === undefined ? '' : `${namespace}/`}${name}`
  const resource = server.resourceOf(apiVersion, kind)
  if (resource === undefined) {
    throw new RefusedObject(`cannot create ${title}: the kind ${kind} of ${apiVersion} is not served`)
  }
  if (resource.namespaced && !namespace) throw new RefusedObject(`cannot create ${title}: it needs metadata.namespace`)
  const send = async (method: 'POST' | 'PUT', path: string, body: unknown) => {
    const response = await server.handle({ method, path, query: [], headers: {}, body }, never)
    return response as Extract<ApiResponse, { body: unknown }>
  }
  const created = await send('POST', pathOf(resource, { namespace }), object)
  if (created.status !== 201) throw refused(title, created)
  if (status === undefined) return created.body as KubeObject
  // Written separately, because a create drops the status of most kinds.
  const path = `${pathOf(resource, { namespace, name })}/status`
  const updated = await send('PUT', path, { ...(created.body as object), status })
  if (updated.status === 404) return created.body as KubeObject
  if (updated.status !== 200) throw refused(title, updated)
  return updated.body as KubeObject
}

function refused(title: string, { body }: { readonly body: unknown }): RefusedObject {
  return new RefusedObject(`cannot create ${title}: ${(body as { readonly message?: string }).message}`)
}

/** @throws RefusedObject */
async function definitionsIn(definition: object | string, place: string): Promise<readonly unknown[]> {
  if (typeof definition !== 'string') return [definition]
  const { parseYamlDocuments } = await import('../documents/yaml.ts')
  try {
    return parseYamlDocuments(definition, place, MAX_CRD_LENGTH)
  } catch (cause) {
    throw new RefusedObject(messageOf(cause), { cause })
  }
}

/** The limit on a YAML text of `crds`, in characters. A definition of many versions is long. */
export const MAX_CRD_LENGTH = 4 * 1024 * 1024

/**
 * The first line of each kubeconfig file. It identifies the files that may be replaced: an earlier server may have left
 * them behind.
 */
const OWN_FILE = '# Written by apiserver-bootstrap for an embedded API server, which deletes it at its end.\n'

/** Writes a new file. Replaces only a file that begins with {@link OWN_FILE}. Leaves no incomplete file. */
async function writeNewFile(file: string, text: string): Promise<void> {
  if ((await textOf(file)).startsWith(OWN_FILE)) await rm(file)
  try {
    await writeFile(file, text, { mode: 0o600, flag: 'wx' })
  } catch (error) {
    // If the file could not be opened, this call did not create it.
    if ((error as NodeJS.ErrnoException).syscall !== 'open') await rm(file, { force: true })
    throw error
  }
}

/** Removes a file if its text is still `text`. */
async function removeOwn(file: string, text: string): Promise<void> {
  if ((await textOf(file)) === text) await rm(file, { force: true })
}

/** The text of a file; empty if it cannot be read or is not a regular file. A pipe or a terminal may have no end. */
async function textOf(file: string): Promise<string> {
  try {
    return (await lstat(file)).isFile() ? await readFile(file, 'utf8') : ''
  } catch {
    return ''
  }
}

/** The kubeconfig, as YAML instead of JSON because people read it. */
function kubeconfigOf(url: string, certificate: string, token: string): string {
  const name = 'apiserver-bootstrap'
  return `apiVersion: v1
kind: Config
clusters:
  - name: ${name}
    cluster:
      server: ${url}
      certificate-authority-data: ${Buffer.from(certificate).toString('base64')}
contexts:
  - name: ${name}
    context:
      cluster: ${name}
      user: ${name}
current-context: ${name}
users:
  - name: ${name}
    user:
      token: ${token}
`
}
