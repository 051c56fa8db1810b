import { get, inNamespace, patch, post, remove, type Scenario, service } from '../scenario.ts'

const services = inNamespace('services')
const web = `${services}/web`
const status = `${web}/status`

function port(nodePort: number, more: object = {}): object {
  return { name: 'web', port: 80, nodePort, ...more }
}

/** Services that servers refuse. The node port of their ports is 31,010. */
const refused: readonly object[] = [
  { externalTrafficPolicy: 'Local' },
  { type: 'NodePort', externalTrafficPolicy: 'Nonsense', ports: [port(31_010)] },
  { type: 'NodePort', externalTrafficPolicy: 'Local', healthCheckNodePort: 31_011, ports: [port(31_010)] },
  { type: 'LoadBalancer', healthCheckNodePort: 31_011, ports: [port(31_010)] },
  { type: 'LoadBalancer', externalTrafficPolicy: 'Local', healthCheckNodePort: 99, ports: [port(31_010)] },
  { type: 'LoadBalancer', externalTrafficPolicy: 'Local', healthCheckNodePort: 31_010, ports: [port(31_010)] },
  { type: 'ExternalName', externalName: 'a.example', externalTrafficPolicy: 'Local' },
  { internalTrafficPolicy: 'Nonsense' },
  { trafficDistribution: 'Nonsense' },
  { loadBalancerClass: 'example.com/lb' },
  { type: 'LoadBalancer', loadBalancerClass: 'Not/a/class', ports: [port(31_010)] },
  { allocateLoadBalancerNodePorts: true },
  { type: 'NodePort', allocateLoadBalancerNodePorts: false, ports: [port(31_010)] },
  { loadBalancerSourceRanges: ['10.0.0.0/8'] },
  {
    type: 'LoadBalancer',
    loadBalancerSourceRanges: ['10.0.0.0/8', 'nonsense', ' 10.0.0.0/8 ', '10.0.0.1/8'],
    ports: [port(31_010)],
  },
  { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 0 } } },
  { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 86_401 } } },
  { externalIPs: ['127.0.0.1', '0.0.0.0', '169.254.1.1'] },
  { type: 'NodePort', ports: [port(31_010), port(31_010, { name: 'b', port: 81 })] },
  { type: 'NodePort', ports: [port(31_010), port(31_010, { name: 'b', port: 81, protocol: 'UDP' })] },
  { ports: [{ port: 80, appProtocol: 'Not valid!' }] },
]

export const serviceScenarios: readonly Scenario[] = [
  {
    name: 'Services with contradictory traffic policies',
    steps: [...refused.map((spec) => post(services, service('web', spec))), get(services)],
  },
  {
    name: 'the fields of each type of Service',
    steps: [
      post(
        services,
        service('web', {
          type: 'LoadBalancer',
          ports: [port(31_020)],
          externalTrafficPolicy: 'Local',
          healthCheckNodePort: 31_021,
          loadBalancerClass: 'example.com/lb',
        }),
      ),
      patch('merge', web, { spec: { loadBalancerClass: null } }),
      patch('merge', web, { spec: { healthCheckNodePort: 31_022 } }),
      patch('merge', web, { spec: { type: 'ClusterIP', externalTrafficPolicy: 'Cluster' } }),
      patch('merge', web, { spec: { type: 'ClusterIP', healthCheckNodePort: 31_022 } }),
      patch('merge', web, { spec: { type: 'ClusterIP', loadBalancerClass: 'example.com/other' } }),
      patch('merge', web, { spec: { type: 'ClusterIP', allocateLoadBalancerNodePorts: false } }),
      patch('merge', web, { spec: { type: 'NodePort' } }),
      patch('merge', web, { spec: { type: 'LoadBalancer', healthCheckNodePort: 31_020 } }),
      patch('merge', web, { spec: { type: 'LoadBalancer', healthCheckNodePort: 31_023 } }),
      patch('merge', web, { spec: { externalTrafficPolicy: 'Cluster' } }),
      patch('merge', web, { spec: { type: 'ClusterIP' } }),
      patch('merge', web, { spec: { type: 'ExternalName', externalName: 'example.com' } }),
      remove(web),
      post(services, service('web', { externalTrafficPolicy: 'Local', externalIPs: ['198.51.100.1'] })),
      patch('merge', web, { spec: { externalIPs: null } }),
      remove(web),
      post(services, service('web', { type: 'LoadBalancer', allocateLoadBalancerNodePorts: false })),
      patch('merge', web, { spec: { ports: [port(31_024)] } }),
      post(
        services,
        service('other', { type: 'LoadBalancer', allocateLoadBalancerNodePorts: false, ports: [port(31_024)] }),
      ),
      patch('merge', web, { spec: { ports: [port(31_025), port(31_025, { name: 'b', port: 81 })] } }),
      patch('merge', web, { spec: { ports: [{ name: 'web', port: 80 }] } }),
      remove(web),
      post(services, service('web', { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: {} } })),
      remove(web),
    ],
  },
  {
    name: 'one NodePort for one port number, or for several',
    steps: [
      { port: 53, protocol: 'SCTP' },
      { port: 99, protocol: 'UDP' },
      { port: 99, protocol: 'SCTP' },
    ].flatMap((more) => {
      const tcp = port(31_040, { name: 'tcp', port: 53 })
      const other = port(31_040, { name: 'other', ...more })
      return [{ nodePort: 31_041 }, {}].flatMap((given) => {
        const ports = [tcp, { name: 'udp', port: 53, protocol: 'UDP', ...given }, other]
        return [post(services, service('web', { type: 'NodePort', ports })), remove(web)]
      })
    }),
  },
  {
    name: 'an ExternalName with the NodePort of another Service',
    steps: [
      post(services, service('web', { type: 'NodePort', ports: [port(31_050)] })),
      post(services, service('out', { type: 'ExternalName', externalName: 'a.example', ports: [port(31_050)] })),
      patch('merge', `${services}/out`, { spec: { type: 'NodePort' } }),
      remove(`${services}/out`),
      post(services, service('other', { type: 'NodePort', ports: [port(31_050)] })),
      remove(web),
      remove(`${services}/other`),
    ],
  },
  {
    name: 'node ports that are 0',
    steps: [
      post(services, service('web', { healthCheckNodePort: 0, ports: [port(0)] })),
      patch('merge', web, { spec: { healthCheckNodePort: 0 } }),
      patch('strategic', web, { spec: { ports: [port(0)] } }),
      patch('apply', `${web}?fieldManager=one`, service('web', { healthCheckNodePort: 0, ports: [port(0)] })),
      remove(web),
    ],
  },
  {
    name: 'the addresses of a load balancer',
    steps: [
      post(services, service('web', { type: 'LoadBalancer', ports: [port(31_030)] })),
      ...[
        { ip: 'nonsense' },
        { hostname: '10.0.0.1' },
        { hostname: 'Bad_Name' },
        { ip: '192.0.2.1', ipMode: 'Nonsense' },
        { hostname: 'a.example', ipMode: 'VIP' },
        { ip: '192.0.2.1' },
      ].map((point) => patch('merge', status, { status: { loadBalancer: { ingress: [point] } } })),
      patch('merge', web, { spec: { type: 'ClusterIP' } }),
      get(web),
      remove(web),
    ],
  },
]
