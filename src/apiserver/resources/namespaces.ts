import { namespaces } from '../../kube/resources.ts'
import { type Kind, member } from '../kind.ts'
import { dnsLabelFault } from '../names.ts'
import { forbidden } from '../refusal.ts'
import { conditions, kindSchema, object, string, strings } from '../schema.ts'

/** What upstream's NamespaceLifecycle admission protects. kube-node-lease is not among them. */
const immortal = ['default', 'kube-public', 'kube-system']

/** The finalizer in a Namespace's spec that stands for its contents. */
export const contentsFinalizer = 'kubernetes'

export const namespaceKind: Kind = {
  resource: namespaces,
  singular: 'namespace',
  shortNames: ['ns'],
  schema: kindSchema({ spec: object({ finalizers: strings }), status: object({ phase: string, conditions }) }),
  hasStatus: true,
  createOnUpdate: false,
  answersDeleted: true,
  selectableFields: { 'status.phase': (namespace) => String(member(namespace, 'status').phase ?? '') },
  nameFault: dnsLabelFault,
  withDefaults: (draft) => withNameLabel(draft),
  forCreate: (draft) => ({
    ...withNameLabel(draft),
    spec: { ...member(draft, 'spec'), finalizers: [contentsFinalizer] },
    status: { phase: 'Active' },
  }),
  // Only the namespace controller takes away the contents' finalizer.
  forUpdate: (draft, live) => ({ ...draft, spec: live.spec }),
  validate() {},
  refuseDelete(live) {
    const { name } = live.metadata
    if (immortal.includes(name)) throw forbidden(namespaces, name, 'this namespace may not be deleted')
  },
  forDelete(marked) {
    const { deletionGracePeriodSeconds: _grace, ...metadata } = marked.metadata
    return { ...marked, metadata, status: { ...member(marked, 'status'), phase: 'Terminating' } }
  },
  isKept: (namespace) => ((member(namespace, 'spec').finalizers ?? []) as readonly string[]).length > 0,
}

function withNameLabel<T extends Parameters<NonNullable<Kind['withDefaults']>>[0]>(draft: T): T {
  const name = draft.metadata?.name
  if (name === undefined || draft.metadata?.labels?.['kubernetes.io/metadata.name'] === name) return draft
  const labels = { ...draft.metadata?.labels, 'kubernetes.io/metadata.name': name }
  return { ...draft, metadata: { ...draft.metadata, labels } }
}
