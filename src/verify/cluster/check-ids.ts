/** What a check of a cluster is about, without its code: for the command line and the documents. */
export interface CheckText {
  /** What holds, as a sentence. */
  readonly title: string
  /** The consequence when it does not hold. */
  readonly why: string
  /** What repairs it; the report has the command. */
  readonly repair: string
}

/** The checks of a cluster by their ids, which are stable, in the order of reports. */
export const checkTexts = {
  'system-namespaces': {
    title: 'The system namespaces exist.',
    why: 'Controllers, nodes and leases keep their objects there, and fail without them.',
    repair: 'create the namespace',
  },
  'kubernetes-service': {
    title: 'Service default/kubernetes has the first ClusterIP of the range, its port, type and labels.',
    why: 'Every Pod reaches the API server by this Service.',
    repair: 'patch the Service, or create it again',
  },
  'kubernetes-endpoints': {
    title: 'Endpoints default/kubernetes list usable addresses at the port of the API servers.',
    why: 'Clients are sent to each listed address; EndpointSlice kubernetes follows them.',
    repair: 'patch the Endpoints, or create them from the slice',
  },
  'kubernetes-endpointslice': {
    title: 'EndpointSlice default/kubernetes equals the Endpoints.',
    why: 'kube-proxy reads the slice, other clients the Endpoints: they must reach the same API servers.',
    repair: 'write the slice from the Endpoints',
  },
} as const satisfies Readonly<Record<string, CheckText>>

export type CheckId = keyof typeof checkTexts

export const checkIds = Object.keys(checkTexts) as readonly CheckId[]
