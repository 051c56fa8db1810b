import {
  configMaps,
  leases,
  namespaces,
  secrets,
  selfSubjectAccessReviews,
  serviceAccounts,
} from '../../kube/resources.ts'
import { equalJson } from '../../runtime/equal-json.ts'
import { ageColumn, nameColumn } from '../columns.ts'
import { type Draft, type Kind, type Members, member } from '../kind.ts'
import { dnsLabelFault } from '../names.ts'
import { cannotDecode, type FieldErrors, forbidden } from '../refusal.ts'
import * as s from '../schema.ts'
import { fieldsAt, textAt } from '../selectors.ts'
import type { StoredObject } from '../store.ts'

/** The namespaces that upstream's NamespaceLifecycle admission protects. kube-node-lease is not among them. */
const immortalNamespaces = ['default', 'kube-public', 'kube-system']

/** The finalizer in the spec of a Namespace, which retains the Namespace until it is empty. */
const contentsFinalizer = 'kubernetes'

export const namespaceKind: Kind = {
  resource: namespaces,
  shortNames: ['ns'],
  schema: s.kindSchema({
    spec: s.object({ finalizers: s.strings }),
    status: s.object({ phase: s.string, conditions: s.conditions }),
  }),
  hasStatus: true,
  answersDeleted: true,
  selectableFields: fieldsAt('status.phase'),
  columns: [nameColumn, { name: 'Status', cell: textAt('status.phase') }, ageColumn],
  nameFault: dnsLabelFault,
  withDefaults: withNameLabel,
  forCreate: (draft) => ({
    ...withNameLabel(draft),
    spec: { ...member(draft, 'spec'), finalizers: [contentsFinalizer] },
    status: { phase: 'Active' },
  }),
  // An update cannot remove the finalizer in the spec: `NamespaceContents` removes the whole Namespace.
  forUpdate: (draft, live) => ({ ...draft, spec: live.spec }),
  refuseDelete(live) {
    const { name } = live.metadata
    if (immortalNamespaces.includes(name)) throw forbidden(namespaces, name, 'this namespace may not be deleted')
  },
  forDelete(marked) {
    const { deletionGracePeriodSeconds: _grace, ...metadata } = marked.metadata
    return { ...marked, metadata, status: { ...member(marked, 'status'), phase: 'Terminating' } }
  },
  isRetained: (namespace) => ((member(namespace, 'spec').finalizers ?? []) as readonly string[]).length > 0,
}

function withNameLabel(draft: Draft): Draft {
  const name = draft.metadata?.name
  if (name === undefined || draft.metadata?.labels?.['kubernetes.io/metadata.name'] === name) return draft
  const labels = { ...draft.metadata?.labels, 'kubernetes.io/metadata.name': name }
  return { ...draft, metadata: { ...draft.metadata, labels } }
}

export const configMapKind: Kind = {
  resource: configMaps,
  shortNames: ['cm'],
  schema: s.kindSchema({ data: s.map, binaryData: s.map, immutable: s.boolean }),
  columns: [
    nameColumn,
    {
      name: 'Data',
      cell: (map) => [...Object.keys(member(map, 'data')), ...Object.keys(member(map, 'binaryData'))].length,
    },
    ageColumn,
  ],
  withDefaults(draft) {
    checkBase64(configMaps, member(draft, 'binaryData'))
    return draft
  },
  validate(draft, errors, live) {
    checkImmutable(draft, ['data', 'binaryData'], errors, live)
    checkKeys(draft, 'data', errors)
    checkKeys(draft, 'binaryData', errors)
    for (const key of Object.keys(member(draft, 'data'))) {
      if (Object.hasOwn(member(draft, 'binaryData'), key)) {
        errors.invalid(`data[${key}]`, key, 'duplicate of key present in binaryData')
      }
    }
    const texts = Object.values(member(draft, 'data')).map((text) => Buffer.byteLength(String(text)))
    const bytes = Object.values(member(draft, 'binaryData')).map((text) => Buffer.byteLength(String(text), 'base64'))
    checkSize([...texts, ...bytes], '[]', errors)
  },
}

function checkSize(byteCounts: readonly number[], field: string, errors: FieldErrors): void {
  const total = byteCounts.reduce((sum, count) => sum + count, 0)
  if (total > MAX_DATA_BYTES) errors.tooLong(field, MAX_DATA_BYTES)
}

/** Upstream's MaxSecretSize, which is also the limit of ConfigMaps. */
const MAX_DATA_BYTES = 1024 * 1024

/** Checks the keys of the data of a ConfigMap or Secret. Volumes use these keys as file names. */
function checkKeys(draft: Draft, field: string, errors: FieldErrors): void {
  for (const key of Object.keys(member(draft, field))) {
    if (!/^[-._a-zA-Z0-9]{1,253}$/.test(key)) {
      errors.invalid(
        `${field}[${key}]`,
        key,
        "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
      )
    }
    if (key === '.' || key === '..') errors.invalid(`${field}[${key}]`, key, `must not be '${key}'`)
    else if (key.startsWith('..')) errors.invalid(`${field}[${key}]`, key, "must not start with '..'")
  }
}

/** Refuses changes of `immutable` and of `fields` in an immutable ConfigMap or Secret. */
function checkImmutable(
  draft: Draft,
  fields: readonly string[],
  errors: FieldErrors,
  live: StoredObject | undefined,
): void {
  if (live === undefined || live.immutable !== true) return
  const message = 'field is immutable when `immutable` is set'
  if (draft.immutable !== true) errors.forbidden('immutable', message)
  for (const field of fields) {
    if (!equalJson(member(draft, field), member(live, field))) errors.forbidden(field, message)
  }
}

/** The keys that Secrets of these types must have. */
const secretData: ReadonlyMap<string, readonly string[]> = new Map([
  ['kubernetes.io/dockercfg', ['.dockercfg']],
  ['kubernetes.io/dockerconfigjson', ['.dockerconfigjson']],
  ['kubernetes.io/ssh-auth', ['ssh-privatekey']],
  ['kubernetes.io/tls', ['tls.crt', 'tls.key']],
])

export const secretKind: Kind = {
  resource: secrets,
  schema: s.kindSchema({ data: s.map, type: s.optionalString, immutable: s.boolean }),
  selectableFields: fieldsAt('type'),
  columns: [
    nameColumn,
    { name: 'Type', cell: textAt('type') },
    { name: 'Data', cell: (secret) => Object.keys(member(secret, 'data')).length },
    ageColumn,
  ],
  withDefaults: withDataOfStrings,
  validate(draft, errors, live) {
    const data = member(draft, 'data')
    if (live !== undefined && draft.type !== live.type) {
      errors.invalid('type', draft.type, 'field is immutable')
    }
    checkImmutable(draft, ['data'], errors, live)
    checkKeys(draft, 'data', errors)
    const bytes = Object.values(data).map((text) => Buffer.byteLength(String(text), 'base64'))
    checkSize(bytes, 'data', errors)
    const account = 'kubernetes.io/service-account.name'
    if (draft.type === 'kubernetes.io/service-account-token' && !draft.metadata?.annotations?.[account]) {
      errors.required(`metadata.annotations[${account}]`)
    }
    if (draft.type === 'kubernetes.io/basic-auth' && data.username === undefined && data.password === undefined) {
      for (const key of ['username', 'password']) errors.required(`data[${key}]`)
    }
    for (const key of secretData.get(String(draft.type)) ?? []) {
      if (data[key] === undefined) errors.required(`data[${key}]`)
    }
  },
}

/** Refuses values that are not base64. @throws Refusal 400, in the words of Go's decoder */
function checkBase64(resource: Kind['resource'], data: Members): void {
  for (const text of Object.values(data).map(String)) {
    // Go skips line ends, but counts them as input bytes.
    const letters = /^[A-Za-z0-9+/\r\n]*/.exec(text)?.[0] ?? ''
    const padding = text.slice(letters.length)
    const used = letters.replaceAll(/[\r\n]/g, '').length
    const wanted = (4 - (used % 4)) % 4
    if (padding.replaceAll(/[\r\n]/g, '') === '='.repeat(wanted) && wanted < 3) continue
    throw cannotDecode(resource, `illegal base64 data at input byte ${letters.length}`)
  }
}

/** Moves the strings of `stringData` to `data`, encoded in base64. @throws Refusal 400 */
function withDataOfStrings(draft: Draft): Draft {
  const { stringData: _strings, ...secret } = draft
  const texts = Object.entries(member(draft, 'stringData')).map(
    ([key, text]) => [key, Buffer.from(String(text)).toString('base64')] as const,
  )
  const data = { ...member(draft, 'data'), ...Object.fromEntries(texts) }
  checkBase64(secrets, data)
  return { type: 'Opaque', ...secret, ...(Object.keys(data).length === 0 ? {} : { data }) }
}

export const serviceAccountKind: Kind = {
  resource: serviceAccounts,
  shortNames: ['sa'],
  schema: s.kindSchema({
    secrets: s.list(s.atomicReference, ['name']),
    imagePullSecrets: s.list(s.any),
    automountServiceAccountToken: s.boolean,
  }),
  answersDeleted: true,
}

/** Allows everything, because a client that has access to this server may do everything. */
export const selfSubjectAccessReviewKind: Kind = {
  resource: selfSubjectAccessReviews,
  schema: s.kindSchema({
    spec: s.object({
      resourceAttributes: s.pointer({
        namespace: s.optionalString,
        verb: s.optionalString,
        group: s.optionalString,
        version: s.optionalString,
        resource: s.optionalString,
        subresource: s.optionalString,
        name: s.optionalString,
      }),
      nonResourceAttributes: s.pointer({ path: s.optionalString, verb: s.optionalString }),
    }),
  }),
  validate(draft, errors) {
    const { resourceAttributes, nonResourceAttributes } = member(draft, 'spec')
    if (resourceAttributes !== undefined && nonResourceAttributes !== undefined) {
      errors.invalid(
        'spec.nonResourceAttributes',
        nonResourceAttributes,
        'cannot be specified in combination with resourceAttributes',
      )
    } else if (resourceAttributes === undefined && nonResourceAttributes === undefined) {
      errors.invalid(
        'spec.resourceAttributes',
        null,
        'exactly one of nonResourceAttributes or resourceAttributes must be specified',
      )
    }
  },
  review: (draft) => ({ ...draft, status: { allowed: true } }),
}

export const leaseKind: Kind = {
  resource: leases,
  schema: s.kindSchema({
    spec: s.object({
      holderIdentity: s.string,
      leaseDurationSeconds: s.integer,
      acquireTime: s.microTime,
      renewTime: s.microTime,
      leaseTransitions: s.integer,
      strategy: s.string,
      preferredHolder: s.string,
    }),
  }),
  createOnUpdate: true,
  requiresResourceVersion: true,
  columns: [nameColumn, { name: 'Holder', cell: textAt('spec.holderIdentity') }, ageColumn],
  withDefaults: (draft) => (draft.spec === undefined ? { ...draft, spec: {} } : draft),
  forCreate: withoutStrategy,
  forUpdate: withoutStrategy,
  validate(draft, errors) {
    const { leaseDurationSeconds, leaseTransitions } = member(draft, 'spec')
    if (typeof leaseDurationSeconds === 'number' && leaseDurationSeconds <= 0) {
      errors.invalid('spec.leaseDurationSeconds', leaseDurationSeconds, 'must be greater than 0')
    }
    if (typeof leaseTransitions === 'number' && leaseTransitions < 0) {
      errors.invalid('spec.leaseTransitions', leaseTransitions, 'must be greater than or equal to 0')
    }
  },
}

/** Upstream drops the fields of coordinated leader election, whose feature gate is off. */
function withoutStrategy(draft: Draft): Draft {
  const { strategy, preferredHolder, ...spec } = member(draft, 'spec')
  return strategy === undefined && preferredHolder === undefined ? draft : { ...draft, spec }
}
