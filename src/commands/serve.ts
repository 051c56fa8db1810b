import { inProcessTransport } from '../apiserver/api-server.ts'
import {
  defaultNamespace,
  MAX_CRD_LENGTH,
  RefusedObject,
  type StartedApiServer,
  startApiServer,
} from '../apiserver/http-start.ts'
import { NOT_ENFORCED } from '../apiserver/resources/custom-resource-definitions.ts'
import { type Flags, takeOwnOptions } from '../config/resolve.ts'
import { InvalidInputError, unreadableReason } from '../documents/validation.ts'
import { isRecord } from '../kube/resources.ts'
import { shellWord } from '../runtime/shell.ts'
import { aborted } from '../runtime/signals.ts'
import { systemClock, systemRandom } from '../runtime/system-clock.ts'
import { readStart } from '../runtime/system-file.ts'
import { limitHeap } from '../runtime/system-heap.ts'
import { type Logger, silentLogger } from '../telemetry/logger.ts'
import { writtenKubeconfig } from './kubeconfig-file.ts'
import { serveOptions } from './options.ts'
import { print, watchOutput } from './output.ts'
import { formatFault } from './serve-faults.ts'
import { openStatusPage, type StatusPage } from './status-page/http-status-page.ts'
import type { StatusSource } from './status-page/status-source.ts'
import { stopSignals } from './stop-signals.ts'

const serviceCidr = {
  apiVersion: 'networking.k8s.io/v1',
  kind: 'ServiceCIDR',
  metadata: { name: 'kubernetes' },
  spec: { cidrs: ['10.96.0.0/16'] },
}

/** Controllers store their Leases in this namespace. */
const systemNamespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'kube-system' } }

/**
 * Serves an embedded API server until SIGTERM, SIGINT or SIGHUP, or until standard output cannot be written, and
 * resolves with 0. Throws a ListenError if it cannot listen. Throws an InvalidInputError for mistakes of the flags, for
 * a file that cannot be read or written, and for a definition that the server refuses.
 */
export async function execute(flags: Flags): Promise<number> {
  limitHeap()
  const { own } = takeOwnOptions(serveOptions, flags)
  const { fault, faultPercent, faultPath } = own
  if (fault === undefined && (faultPercent !== 100 || faultPath !== '/')) {
    const where = faultPath === '/' ? '--fault-percent' : '--fault-path'
    throw new InvalidInputError([{ where, message: 'requires --fault' }])
  }
  const crds = (await Promise.all((own.crd ?? []).map(definitionsIn))).flat()
  // The kubeconfig must also be deleted when the terminal is closed.
  const stop = stopSignals(['SIGHUP'])
  let server: StartedApiServer | undefined
  let kubeconfig: Awaited<ReturnType<typeof writtenKubeconfig>> | undefined
  let page: StatusPage | undefined
  try {
    server = await startApiServer({
      host: own.bindAddress,
      port: own.port,
      logger: defectLogger,
      serviceAllocators: own.allocate ? 'own' : 'none',
      crds,
      objects: [defaultNamespace, systemNamespace, ...(own.allocate ? [serviceCidr] : [])],
    })
    if (fault !== undefined) server.faults.add({ fault, probability: faultPercent / 100, pathPrefix: faultPath })
    kubeconfig = await writtenKubeconfig(server, own.writeKubeconfig)
    page = await openStatusPage({ host: '127.0.0.1', port: 0 }, defectLogger)
    await print(
      greeting(server, kubeconfig.file, page.url) +
        (fault === undefined
          ? ''
          : `\nWith a fault: ${formatFault(fault)}, ${faultPercent} of a hundred, below ${faultPath}\n`) +
        (crds.length === 0 ? '' : `\nOf the definitions: ${NOT_ENFORCED}.\n`),
    )
    page.start(() => loadPageSource(server as StartedApiServer))
    await aborted(AbortSignal.any([stop.signal, watchOutput().gone]))
    return 0
  } catch (cause) {
    if (!(cause instanceof RefusedObject)) throw cause
    throw new InvalidInputError([{ where: '--crd', message: cause.message }], { cause })
  } finally {
    // Closed here, because Node 22 has no `await using`.
    await page?.close()
    kubeconfig?.[Symbol.dispose]()
    await server?.close()
    stop.release()
  }
}

/** Writes warnings and errors, and loads pino only for these. The greeting replaces the info lines about CRDs. */
const defectLogger: Logger = {
  ...silentLogger,
  warn: (fields, message) => log('warn', fields, message),
  error: (fields, message) => log('error', fields, message),
  child: () => defectLogger,
}

function log(level: 'warn' | 'error', ...line: Parameters<Logger['warn']>): void {
  void import('../telemetry/pino-logger.ts')
    .then(({ createPinoLogger }) => createPinoLogger({ level: 'warn' }))
    .then((logger) => logger[level](...line))
}

/** Opens the source of the page. Its code is imported after the greeting, because clients of the API do not need it. */
async function loadPageSource({ server }: StartedApiServer): Promise<StatusSource> {
  const [{ embeddedSource }, { restKubeApi }] = await Promise.all([
    import('./status-page/embedded-source.ts'),
    import('../kube/rest-api.ts'),
  ])
  const transport = inProcessTransport(server)
  return embeddedSource(restKubeApi({ transport, clock: systemClock, random: systemRandom() }))
}

/**
 * The CustomResourceDefinitions in a YAML file. Throws an InvalidInputError if it is unreadable or has other objects.
 */
async function definitionsIn(file: string): Promise<readonly object[]> {
  const { parseYamlDocuments } = await import('../documents/yaml.ts')
  // A character has at most three bytes for each of its UTF-16 units, which the limit counts.
  const text = await readStart(file, 3 * MAX_CRD_LENGTH).catch((cause: unknown) => {
    throw new InvalidInputError([{ where: '--crd', message: `${file}: ${unreadableReason(cause)}` }], { cause })
  })
  const definitions = parseYamlDocuments(text, file, MAX_CRD_LENGTH)
  for (const definition of definitions) {
    if (isRecord(definition) && definition.kind === 'CustomResourceDefinition') continue
    throw new InvalidInputError([{ where: file, message: 'contains objects other than CustomResourceDefinitions' }])
  }
  return definitions as readonly object[]
}

function greeting({ url }: StartedApiServer, file: string, page: string): string {
  return `Embedded API server at ${url}, in memory, for development and tests. Ctrl-C ends it.
Its only controller empties deleted namespaces.
What happens in it, live: ${page}

  export KUBECONFIG=${shellWord(file)}
  kubectl get namespaces
  kubectl create configmap example --from-literal=a=b
`
}
