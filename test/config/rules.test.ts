import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Flags, resolveConfiguration } from '../../src/config/resolve.ts'
import { InvalidInputError } from '../../src/documents/validation.ts'

const enough: Flags = { kubeconfig: 'admin.conf', advertiseAddress: '192.0.2.1' }

/** The mistakes in these flags, given together with `enough`: one line each. */
function mistakes(flags: Flags): readonly string[] {
  try {
    resolveConfiguration({ ...enough, ...flags })
    return []
  } catch (error) {
    assert.ok(error instanceof InvalidInputError, String(error))
    return error.message.split('\n')
  }
}

const none = undefined

const clientCa: Flags = { healthTlsCertFile: 'a.crt', healthTlsPrivateKeyFile: 'a.key', clientCaFile: 'ca.crt' }

/** Flags beside `enough`, and the one line of the error that refuses them; no line if they are accepted. */
const table: readonly (readonly [flags: Flags, line?: string])[] = [
  [{}],
  // Which API server.
  [
    { kubeconfig: none },
    '--kubeconfig: one of --kubeconfig, --in-cluster and --embedded is required; there is no default API server',
  ],
  [{ inCluster: 'true' }, '--kubeconfig: only one of --kubeconfig, --in-cluster and --embedded can be given'],
  [{ kubeconfig: none, inCluster: 'true' }],
  [
    { kubeconfig: none, inCluster: 'true', embedded: 'true' },
    '--kubeconfig: only one of --kubeconfig, --in-cluster and --embedded can be given',
  ],
  [{ kubeconfig: none, inCluster: 'true', context: 'blue' }, '--context: needs --kubeconfig'],
  [{ context: 'blue' }],
  [{ context: '' }, '--context: must be the name of a context, not ""'],
  [{ kubeconfig: '' }, '--kubeconfig: needs the name of a file, not ""'],
  [{ inCluster: 'yes' }, '--in-cluster: must be true or false, not "yes"'],

  // etcd.
  [{ etcdServers: 'http://127.0.0.1:2379' }],
  [
    {
      etcdServers: 'https://10.0.0.1:2379,https://[fd00::1]:2379',
      etcdCafile: 'ca',
      etcdCertfile: 'c',
      etcdKeyfile: 'k',
    },
  ],
  [{ etcdServers: 'unix:///run/kine.sock' }],
  [{ etcdServers: 'https://etcd.example:443/' }],
  [{ etcdServers: '' }, '--etcd-servers: needs at least one endpoint'],
  [
    { etcdServers: '127.0.0.1:2379' },
    '--etcd-servers: endpoint "127.0.0.1:2379" is not valid; use https://HOST:PORT, http://HOST:PORT or unix:///PATH',
  ],
  [
    { etcdServers: 'https://127.0.0.1' },
    `--etcd-servers: "https://127.0.0.1" has no port; the default port of etcd is 2379`,
  ],
  [
    { etcdServers: 'https://127.0.0.1:2379/registry' },
    '--etcd-servers: endpoint "127.0.0.1:2379" must have only a host and a port; set the key prefix with --etcd-prefix',
  ],
  ...['?password=hunter2', '?', '#'].map((end): (typeof table)[number] => [
    { etcdServers: `https://127.0.0.1:2379/${end}` },
    '--etcd-servers: endpoint "127.0.0.1:2379" must have only a host and a port; set the key prefix with --etcd-prefix',
  ]),
  [
    { etcdServers: 'https://root:hunter2@127.0.0.1:2379' },
    '--etcd-servers: an endpoint must not contain a user name or password; use a client certificate',
  ],
  ...['https://root:hunter2@127.0.0.1:port', 'root:hunter2@127.0.0.1:2379', 'https://root:hun/ter2@h:1'].map(
    (etcdServers): (typeof table)[number] => [
      { etcdServers },
      '--etcd-servers: an endpoint must not contain a user name or password; use a client certificate',
    ],
  ),
  ...['root:hunter2', 'http://root:hunter2', 'https://root:hunter2/', 'root hunter2'].map(
    (etcdServers): (typeof table)[number] => [
      { etcdServers },
      '--etcd-servers: an endpoint is not valid; use https://HOST:PORT, http://HOST:PORT or unix:///PATH',
    ],
  ),
  [{ etcdServers: 'unix://' }, '--etcd-servers: "unix://" has no socket path; use unix:///path/to/socket'],
  [
    { etcdServers: 'https://127.0.0.1:2379,http://127.0.0.1:2479' },
    '--etcd-servers: mixes endpoints with and without TLS',
  ],
  [{ etcdServers: 'http://127.0.0.1:2379', etcdPrefix: '/' }, '--etcd-prefix: needs a name, such as /registry'],
  [
    { etcdServers: 'http://127.0.0.1:2379', etcdPrefix: '/a/../b' },
    '--etcd-prefix: "/a/../b" must not contain . or ..',
  ],
  [{ etcdServers: 'http://127.0.0.1:2379', etcdPrefix: '/a/./b' }, '--etcd-prefix: "/a/./b" must not contain . or ..'],
  [{ etcdServers: 'http://127.0.0.1:2379', etcdCafile: 'ca' }, '--etcd-cafile: requires an https endpoint'],
  [{ etcdCafile: 'ca' }, '--etcd-cafile: needs --etcd-servers'],
  [{ etcdServers: 'https://127.0.0.1:2379', etcdCertfile: 'c' }, '--etcd-certfile: needs --etcd-keyfile'],
  [{ etcdServers: 'https://127.0.0.1:2379', etcdKeyfile: 'k' }, '--etcd-keyfile: needs --etcd-certfile'],
  [{ leaseStore: 'etcd' }, '--lease-store: etcd needs --etcd-servers'],
  [{ leaseNamespace: 'apiserver-leases' }],
  [
    { leaseNamespace: 'apiserver-leases', etcdServers: 'http://127.0.0.1:2379' },
    '--lease-namespace: requires --lease-store=kubernetes',
  ],
  [
    { leaseNamespace: 'a/b' },
    '--lease-namespace: must be a valid Kubernetes name (lower case, digits, - and .), not "a/b"',
  ],
  [
    { apiserverCount: '0', endpointReconcilerType: 'master-count' },
    '--apiserver-count: must be a whole number from 1 to 1000, not 0',
  ],
  [{ apiserverCount: '3' }, '--apiserver-count: requires --endpoint-reconciler-type=master-count'],
  [{ apiserverCount: '3', endpointReconcilerType: 'master-count' }],

  // Advertised addresses.
  [
    { advertiseAddress: none },
    '--advertise-address: is required, unless --endpoint-reconciler-type is none or --controllers leaves out kubernetes-service',
  ],
  [{ advertiseAddress: none, controllers: 'endpoints,endpointslice' }],
  [{ advertiseAddress: none, controllers: 'auto,-kubernetes-service,endpointslice-mirroring' }],
  [{ advertiseAddress: none, endpointReconcilerType: 'none' }],
  [{ advertiseAddress: '' }, '--advertise-address: needs at least one address'],
  [
    { advertiseAddress: '010.0.0.1' },
    '--advertise-address: "010.0.0.1" is not an IP address: "010" has a leading zero, which some programs read as octal',
  ],
  [{ advertiseAddress: '10.1' }, '--advertise-address: "10.1" is not an IP address: an IPv4 address has four parts'],
  [{ advertiseAddress: '1' }, '--advertise-address: "1" is not an IP address: an IPv4 address has four parts'],
  [{ advertiseAddress: 'master-1' }, '--advertise-address: "master-1" is not an IP address'],
  [
    { advertiseAddress: '127.0.0.1' },
    '--advertise-address: 127.0.0.1 is a loopback address: clients cannot reach a server at this address',
  ],
  [
    { advertiseAddress: '169.254.1.1' },
    '--advertise-address: 169.254.1.1 is a link-local address: clients cannot reach a server at this address',
  ],
  [
    { advertiseAddress: '0.0.0.0' },
    '--advertise-address: 0.0.0.0 is the unspecified address: clients cannot reach a server at this address',
  ],
  [
    { advertiseAddress: '224.0.0.1' },
    '--advertise-address: 224.0.0.1 is a multicast address: clients cannot reach a server at this address',
  ],
  [
    { advertiseAddress: '::1', serviceClusterIpRange: 'fd00::/108' },
    '--advertise-address: ::1 is a loopback address: clients cannot reach a server at this address',
  ],
  [
    { advertiseAddress: '192.0.2.1,192.0.2.2' },
    '--advertise-address: two addresses must be of different families, one IPv4 and one IPv6',
  ],
  [{ advertiseAddress: '192.0.2.1,2001:db8::1,192.0.2.2' }, '--advertise-address: takes at most two addresses'],
  [
    { advertiseAddress: '2001:db8::1' },
    '--advertise-address: 2001:db8::1 is IPv6, but --service-cluster-ip-range has no IPv6 range',
  ],
  [
    { advertiseAddress: '2001:db8::1', serviceClusterIpRange: '10.96.0.0/12,fd00::/108' },
    '--advertise-address: must have an IPv4 address, the family of the first range of --service-cluster-ip-range',
  ],
  [{ advertiseAddress: '2001:db8::1', serviceClusterIpRange: 'fd00::/108,10.96.0.0/12' }],

  // Service ranges.
  [{ serviceClusterIpRange: '10.96.0.0/12' }],
  [{ serviceClusterIpRange: '10.96.0.0/12,fd00:10:96::/112' }],
  [{ serviceClusterIpRange: '10.96.0.0/29' }],
  [
    { serviceClusterIpRange: '10.96.0.0/30' },
    '--service-cluster-ip-range: "10.96.0.0/30" is too small: it has 4 addresses, 8 are needed',
  ],
  [
    { serviceClusterIpRange: '10.96.0.1/12' },
    '--service-cluster-ip-range: "10.96.0.1/12" has host bits set; the network is 10.96.0.0/12',
  ],
  [
    { serviceClusterIpRange: '10.96.0.0/12,10.112.0.0/12' },
    '--service-cluster-ip-range: two ranges must be of different families, one IPv4 and one IPv6',
  ],
  [
    { serviceClusterIpRange: '10.0.0.0/24,fd00::/108,10.1.0.0/24' },
    '--service-cluster-ip-range: takes at most two ranges',
  ],
  [{ serviceClusterIpRange: '' }, '--service-cluster-ip-range: needs at least one range'],

  // Ports.
  [{ securePort: '0' }, '--secure-port: must be a whole number from 1 to 65535, not 0'],
  [{ securePort: '65536' }, '--secure-port: must be a whole number from 1 to 65535, not 65536'],
  [{ securePort: 'https' }, '--secure-port: must be a whole number from 1 to 65535, not "https"'],
  [{ securePort: '1e3' }, '--secure-port: must be a whole number from 1 to 65535, not "1e3"'],
  [
    { serviceNodePortRange: '30000-29999' },
    '--service-node-port-range: "30000-29999" is not a port range: it ends before it begins',
  ],
  [{ serviceNodePortRange: '0-10' }, '--service-node-port-range: "0-10" is not a port range: ports are 1 to 65535'],
  [{ kubernetesServiceNodePort: '30443' }],
  [
    { kubernetesServiceNodePort: '-1' },
    '--kubernetes-service-node-port: must be a whole number from 0 to 65535, not -1',
  ],
  [
    { kubernetesServiceNodePort: '443' },
    '--kubernetes-service-node-port: 443 is not in --service-node-port-range 30000-32767',
  ],
  [{ kubernetesServiceNodePort: '443', serviceNodePortRange: '1-1000' }],

  // Leases and times.
  [
    { endpointReconcilerType: 'leese' },
    '--endpoint-reconciler-type: must be one of lease, master-count, none, not "leese"',
  ],
  [{ leaseStore: 'redis' }, '--lease-store: must be one of etcd, kubernetes, memory, not "redis"'],
  [{ leaseTtl: '1s' }, '--lease-ttl: must be at least 2s, not "1s"'],
  [{ leaseTtl: '15500ms' }, '--lease-ttl: must be whole seconds, not "15500ms"'],
  [{ leaseTtl: '14s' }, '--lease-ttl: must be at least 1.5 times --reconcile-interval, 15s, not 14s'],
  [{ leaseTtl: '2s', reconcileInterval: '1s' }],
  [{ leaseTtl: '10m' }],
  [{ leaseTtl: '601s' }, '--lease-ttl: must be at most 60 times --reconcile-interval, 10m0s, not 10m1s'],
  [{ leaseTtl: '24h' }, '--lease-ttl: must be at most 1h0m0s, not "24h"'],
  [{ reconcileInterval: '0s' }, '--reconcile-interval: must be at least 1s, not "0s"'],
  [{ reconcileInterval: '1500ms' }, '--reconcile-interval: must be whole seconds, not "1500ms"'],
  [{ readinessProbePeriod: '0s' }, '--readiness-probe-period: must be at least 100ms, not "0s"'],
  [{ readinessProbePeriod: '250ms' }],
  [{ readinessProbePeriod: '10s' }],
  [
    { readinessProbePeriod: '24h' },
    '--readiness-probe-period: must be at most --reconcile-interval, 10s, not 24h0m0s: a server that fails would stay listed for three periods',
  ],
  [
    { readinessProbePeriod: '1001ms', leaseTtl: '3s', reconcileInterval: '1s' },
    '--readiness-probe-period: must be at most --reconcile-interval, 1s, not 1.001s: a server that fails would stay listed for three periods',
  ],
  [{ shutdownDelayDuration: '-1s' }, '--shutdown-delay-duration: must be at least 0s, not "-1s"'],
  [{ readinessGate: 'never' }, '--readiness-gate: must be one of continuous, startup, not "never"'],
  [{ onShutdown: 'stay' }, '--on-shutdown: must be one of withdraw, always, keep, not "stay"'],

  // Readiness of the own API server.
  [{ readyzUrl: 'https://127.0.0.1:6443/readyz' }],
  [
    { readyzUrl: '127.0.0.1:6443' },
    '--readyz-url: must be an http or https URL, such as https://127.0.0.1:6443/readyz',
  ],
  [
    { readyzUrl: 'ftp://127.0.0.1/readyz' },
    '--readyz-url: must be an http or https URL, such as https://127.0.0.1:6443/readyz',
  ],
  [
    { readyzUrl: 'https://admin:hunter2@127.0.0.1/' },
    "--readyz-url: must not contain credentials; the kubeconfig's are used",
  ],
  [{ readyzUrl: 'https://127.0.0.1/readyz?verbose' }, '--readyz-url: must not have a query or fragment: "?verbose"'],
  [
    { kubeconfig: none, embedded: 'true', readyzUrl: 'https://127.0.0.1:6443' },
    '--readyz-url: has no use with --embedded: that API server is probed in the process, without a URL',
  ],

  // Duties.
  [{ controllers: 'auto,endpoints,endpointslice,endpointslice-mirroring' }],
  [{ maxEndpointsPerSlice: '1000' }],
  [{ maxEndpointsPerSlice: '0' }, '--max-endpoints-per-slice: must be a whole number from 1 to 1000, not 0'],
  [{ concurrentEndpointSyncs: '0' }, '--concurrent-endpoint-syncs: must be a whole number from 1 to 1000, not 0'],
  [{ leaderElect: 'false' }],
  [{ leaderElectLeaseDuration: '1500ms' }, '--leader-elect-lease-duration: must be whole seconds, not "1500ms"'],
  [
    { leaderElectRenewDeadline: '15s' },
    '--leader-elect-renew-deadline: must be shorter than --leader-elect-lease-duration, 15s, not 15s',
  ],
  [
    { leaderElectRetryPeriod: '9s' },
    '--leader-elect-retry-period: multiplied by 1.2, must be shorter than --leader-elect-renew-deadline, 10s, not 9s',
  ],
  [
    { leaderElectResourceName: 'Lease_1' },
    '--leader-elect-resource-name: must be a valid Kubernetes name (lower case, digits, - and .), not "Lease_1"',
  ],
  [{ controllers: 'auto,-kubernetes-service' }],
  [{ controllers: 'kubernetes-service' }],
  [
    { controllers: 'auto,-system-namespace' },
    '--controllers: there is no controller "system-namespace" (did you mean system-namespaces?); known controllers: auto, kubernetes-service, system-namespaces, default-service-cidr, cluster-ip-repair, node-port-repair, endpoints, endpointslice, endpointslice-mirroring, service-cidr',
  ],
  [
    { controllers: 'auto,,' },
    '--controllers: there is no controller ""; known controllers: auto, kubernetes-service, system-namespaces, default-service-cidr, cluster-ip-repair, node-port-repair, endpoints, endpointslice, endpointslice-mirroring, service-cidr',
  ],
  [{ controllers: '' }, '--controllers: turns nothing on: without auto, only the named duties are on'],
  [
    { controllers: '-kubernetes-service' },
    '--controllers: turns nothing on: without auto, only the named duties are on',
  ],
  [
    { controllers: 'auto,kubernetes-service,-kubernetes-service' },
    '--controllers: turns kubernetes-service both on and off',
  ],
  [{ dryRun: '1' }, '--dry-run: must be true or false, not "1"'],

  // Health and logs.
  [{ healthBindAddress: '[::1]:0' }],
  [{ healthBindAddress: 'localhost:10269' }],
  [
    { healthBindAddress: '10269' },
    '--health-bind-address: "10269" is not HOST:PORT, such as 127.0.0.1:10269 or [::1]:10269',
  ],
  [
    { healthBindAddress: '::1:10269' },
    '--health-bind-address: "::1:10269" is not HOST:PORT, such as 127.0.0.1:10269 or [::1]:10269',
  ],
  [
    { healthBindAddress: '127.0.0.1:65536' },
    '--health-bind-address: "127.0.0.1:65536" is not HOST:PORT: the port is a number from 0 to 65535',
  ],
  [{ healthTlsCertFile: 'a.crt' }, '--health-tls-cert-file: needs --health-tls-private-key-file'],
  [{ healthTlsPrivateKeyFile: 'a.key' }, '--health-tls-private-key-file: needs --health-tls-cert-file'],
  [{ healthTlsCertFile: 'a.crt', healthTlsPrivateKeyFile: 'a.key', authenticationTokenWebhook: 'true' }],
  [clientCa],
  [
    { authenticationTokenWebhook: 'true' },
    '--authentication-token-webhook: needs --health-tls-cert-file: without TLS, credentials are sent in plain text',
  ],
  [
    { clientCaFile: 'ca.crt' },
    '--client-ca-file: needs --health-tls-cert-file: without TLS, credentials are sent in plain text',
  ],
  [{ ...clientCa, authorizationAlwaysAllowPaths: '/livez,/readyz/*' }],
  [{ ...clientCa, authorizationAlwaysAllowPaths: '' }],
  [{ authorizationAlwaysAllowPaths: '/healthz,/livez,/readyz' }],
  ...['', '/livez', '/livez,/metrics'].map((authorizationAlwaysAllowPaths): (typeof table)[number] => [
    { authorizationAlwaysAllowPaths },
    '--authorization-always-allow-paths: requires --authentication-token-webhook or --client-ca-file: without them anyone can read every path',
  ]),
  [
    { authorizationAlwaysAllowPaths: '/livez,metrics' },
    '--authorization-always-allow-paths: must begin with / and may have a * as its last character only, not "metrics"',
  ],
  [{ logLevel: 'trace' }, '--log-level: must be one of debug, info, warn, error, not "trace"'],
  [{ logFormat: 'text' }, '--log-format: must be one of json, pretty, not "text"'],
]

for (const [flags, line] of table) {
  const shown = JSON.stringify(flags, (_, value) => (value === undefined ? 'not given' : value))
  test(`${shown} is ${line === undefined ? 'accepted' : 'refused in one line'}`, () => {
    assert.deepEqual(mistakes(flags), line === undefined ? [] : [line])
  })
}

test('two addresses are accepted with two ranges and leases, and refused with master-count', () => {
  const advertiseAddress = '192.0.2.1,2001:db8::1'
  const serviceClusterIpRange = '10.96.0.0/12,fd00::/108'
  assert.deepEqual(mistakes({ advertiseAddress, serviceClusterIpRange }), [])
  assert.deepEqual(mistakes({ advertiseAddress, serviceClusterIpRange, endpointReconcilerType: 'master-count' }), [
    '--advertise-address: accepts only one address with --endpoint-reconciler-type=master-count: without leases a master cannot detect which other masters have two',
  ])
})
