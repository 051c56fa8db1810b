/** The texts about one check of a cluster, for the command line and the documents. */
interface CheckText {
  /** What the check expects, as a sentence. */
  readonly title: string
  /** The consequence if the check fails. */
  readonly why: string
}

/** The checks of a cluster by their ids, which are stable, in the order of reports. */
export const checkTexts = {
  'system-namespaces': {
    title: 'The system namespaces exist.',
    why: 'Controllers, nodes and leases keep their objects there, and fail without them.',
  },
  'kubernetes-service': {
    title: 'Service default/kubernetes has the first ClusterIP of the range, its port, type and labels.',
    why: 'Every Pod reaches the API server by this Service.',
  },
  'kubernetes-endpoints': {
    title: 'Endpoints default/kubernetes list usable addresses at the port of the API servers.',
    why: 'Clients connect to each listed address, and EndpointSlice kubernetes copies the list.',
  },
  'kubernetes-endpointslice': {
    title: 'EndpointSlice default/kubernetes equals the Endpoints.',
    why: 'kube-proxy reads the slice, other clients the Endpoints: they must reach the same API servers.',
  },
  'expected-masters': {
    title: 'default/kubernetes lists exactly the masters that flags or --expect name.',
    why: 'A master that is not listed receives no requests; an address without a master loses requests.',
  },
  'master-leases': {
    title: 'Each listed address has a live lease, and each live lease is listed.',
    why: 'An address without a lease is never removed when its API server dies.',
  },
  'shared-addresses': {
    title: 'No two masters hold one address.',
    why: 'Behind a virtual address this is intended (skip the check); otherwise clients reach only one of them.',
  },
  'server-answers': {
    title: 'Each listed address answers over TLS on its port (with --probe).',
    why: 'A client that is sent to a silent address waits, or fails.',
  },
  'server-certificate': {
    title:
      'The certificate at each listed address is for that address, the ClusterIP or kubernetes.default.svc (with --probe).',
    why: 'Clients refuse a certificate that is for another name, has expired, or is of an unknown authority.',
  },
  'server-ready': {
    title: 'At each listed address /readyz answers 200 (with --probe).',
    why: 'An API server that is not ready refuses requests, or answers from old data.',
  },
  'clock-skew': {
    title: 'The clock of each API server differs from the median by no more than five seconds.',
    why: 'Certificates, tokens and leases depend on the time: what one server accepts has expired for another.',
  },
  'single-writer': {
    title: 'No two writers overwrite each other’s default/kubernetes (with --watch-writers).',
    why: 'With each write clients lose or regain API servers, and kube-proxy on every node applies the change.',
  },
  'service-cidr': {
    title: 'The default ServiceCIDR is Ready, and has the range of the flags.',
    why: 'While it is missing or its condition Ready is False, no Service gets a ClusterIP.',
  },
  'cluster-ips': {
    title: 'Every ClusterIP is in a range, and no two Services have the same.',
    why: 'Traffic to a shared ClusterIP reaches one of the Services by chance.',
  },
  'ip-addresses': {
    title: 'Every ClusterIP has its IPAddress, and every IPAddress its Service.',
    why: 'A ClusterIP without an IPAddress is given to a second Service; an IPAddress without a Service blocks its address.',
  },
  'node-ports': {
    title: 'No two Services have the same NodePort, and each NodePort is in the range, if the range is known.',
    why: 'A node forwards a shared NodePort to only one of the Services.',
  },
  'range-allocations': {
    title: 'The bitmaps in etcd are equal to the ClusterIPs and NodePorts that Services use (with --etcd-servers).',
    why: 'A used number that is not allocated is given to a second Service; an allocated number that no Service uses is lost.',
  },
  'cluster-ip-available': {
    title: 'The server accepts a new Service (in a server-side dry run, which allocates nothing).',
    why: 'Otherwise no Service can be created.',
  },
  'node-port-available': {
    title: 'A new Service can get a NodePort: the bitmap in etcd has a free one, or the server maintains it itself.',
    why: 'Otherwise no Service of type NodePort or LoadBalancer can be created.',
  },
  'service-endpoints': {
    title: 'The Endpoints of each Service with a selector match the Pods that it selects.',
    why: 'Clients that read Endpoints miss a Pod, or reach one that is gone.',
  },
  'service-endpointslices': {
    title: 'The EndpointSlices of each Service with a selector match the Pods that it selects.',
    why: 'kube-proxy sends traffic to these endpoints, and to no others.',
  },
  'orphan-slices': {
    title: 'Every EndpointSlice and Endpoints of a controller belongs to a Service that exists.',
    why: 'No controller updates what a deleted Service has left, and a new Service of the same name inherits it.',
  },
  'duplicate-slices': {
    title:
      'No slice of a Service only repeats endpoints of its older slices, and default/kubernetes has only its own slices.',
    why: 'Clients that read all slices count an endpoint twice, or follow the older copy.',
  },
} as const satisfies Readonly<Record<string, CheckText>>

export type CheckId = keyof typeof checkTexts

export const checkIds = Object.keys(checkTexts) as readonly CheckId[]
