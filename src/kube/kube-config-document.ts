import { LineCounter, parseDocument } from 'yaml'
import { KubeConfigError } from './kube-config-error.ts'

/** One kubeconfig file as it was read: checked for shape, nothing resolved. */
export interface KubeConfigDocument {
  readonly clusters: readonly NamedFields<ClusterField>[]
  readonly users: readonly NamedFields<UserField>[]
  readonly contexts: readonly NamedFields<ContextField>[]
  readonly currentContext: string | undefined
}

/** An entry of one of the lists: its name and the fields under `cluster`, `user` or `context`. */
export interface NamedFields<Text extends string> {
  readonly name: string
  readonly text: { readonly [Field in Text]?: string | undefined }
  /** All fields, those of other types included. */
  readonly fields: Fields
}

type Fields = Readonly<Record<string, unknown>>
type ClusterField = (typeof clusterFields)[number]
type UserField = (typeof userFields)[number]
type ContextField = (typeof contextFields)[number]

const clusterFields = [
  'server',
  'certificate-authority',
  'certificate-authority-data',
  'tls-server-name',
  'proxy-url',
] as const
const userFields = [
  'client-certificate',
  'client-certificate-data',
  'client-key',
  'client-key-data',
  'token',
  'tokenFile',
  'username',
  'password',
  'as',
  'as-uid',
] as const
const contextFields = ['cluster', 'user', 'namespace'] as const

/**
 * Reads the text of the kubeconfig `file`. Throws a KubeConfigError that names the file and the line; its message never quotes the
 * text, which may hold credentials.
 */
export function parseKubeConfig(file: string, text: string): KubeConfigDocument {
  const lines = new LineCounter()
  // Merge keys are YAML 1.1, which is what Go's reader of kubeconfig files understands.
  const document = parseDocument(text, { merge: true, lineCounter: lines, prettyErrors: false, logLevel: 'silent' })
  const [problem] = document.errors
  if (problem !== undefined) {
    const reason = problem.code.toLowerCase().replaceAll('_', ' ')
    throw new KubeConfigError(`kubeconfig ${file}, line ${lines.linePos(problem.pos[0]).line}: not YAML (${reason})`)
  }
  const fail = (path: readonly (string | number)[], words: string): never => {
    const node = document.getIn(path, true) as { readonly range?: readonly number[] } | undefined
    const line = node?.range?.[0] === undefined ? '' : `, line ${lines.linePos(node.range[0]).line}`
    throw new KubeConfigError(`kubeconfig ${file}${line}: ${words}`)
  }
  const root = toFields(document, fail)

  const readList = <Text extends string>(list: string, key: string, names: readonly Text[]): NamedFields<Text>[] => {
    const entries = root[list] ?? []
    if (!Array.isArray(entries)) return fail([list], `${list} is not a list`)
    return entries.map((entry: unknown, index) => {
      if (!isFields(entry)) return fail([list, index], `${list}[${index}] is not a mapping`)
      const { name } = entry
      if (typeof name !== 'string' || name === '') return fail([list, index], `${list}[${index}] has no name`)
      const fields = entry[key] ?? {}
      if (!isFields(fields)) return fail([list, index, key], `${key} of ${JSON.stringify(name)} is not a mapping`)
      const strings: { [Field in Text]?: string } = {}
      for (const field of names) {
        const value = fields[field] ?? ''
        if (typeof value !== 'string') {
          return fail([list, index, key, field], `${field} of ${key} ${JSON.stringify(name)} is not a string; quote it`)
        }
        if (value !== '') strings[field] = value
      }
      return { name, text: strings, fields }
    })
  }
  const currentContext = root['current-context'] ?? ''
  if (typeof currentContext !== 'string') return fail(['current-context'], 'current-context is not a string; quote it')
  return {
    clusters: readList('clusters', 'cluster', clusterFields),
    users: readList('users', 'user', userFields),
    contexts: readList('contexts', 'context', contextFields),
    currentContext: currentContext === '' ? undefined : currentContext,
  }
}

function toFields(
  document: ReturnType<typeof parseDocument>,
  fail: (path: readonly string[], words: string) => never,
): Fields {
  let root: unknown
  try {
    root = document.toJS({ maxAliasCount: 100 })
  } catch {
    return fail([], 'its aliases are circular or too many')
  }
  if (root === null || root === undefined) return fail([], 'the file is empty')
  if (!isFields(root)) return fail([], 'not a kubeconfig: the top level is not a mapping')
  if (root.kind !== undefined && root.kind !== 'Config')
    return fail(['kind'], 'not a kubeconfig: its kind is not Config')
  return root
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
