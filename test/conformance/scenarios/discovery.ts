import { get, type Scenario } from '../scenario.ts'

function aggregated(version: string): string {
  return `application/json;g=apidiscovery.k8s.io;v=${version};as=APIGroupDiscoveryList,application/json`
}

/** The documents that list every group; a real server serves more groups than the embedded one. */
export const discoveryPaths = ['/api', '/apis'] as const

export const discoveryScenarios: readonly Scenario[] = [
  {
    name: 'discovery',
    steps: [
      get('/apis/discovery.k8s.io'),
      get('/apis/discovery.k8s.io/v1'),
      get('/apis/coordination.k8s.io/v1'),
      get('/apis/events.k8s.io'),
      get('/apis/events.k8s.io/v1'),
      get('/apis/example.com'),
      get('/api', aggregated('v2')),
      get('/api', aggregated('v3')),
      get('/livez'),
      get('/readyz'),
      get('/healthz'),
      get('/nowhere'),
    ],
  },
]
