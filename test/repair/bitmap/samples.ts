import fc from 'fast-check'
import type { Service } from '../../../src/kube/resources.ts'

/** Ports in and around 30000-30015, so that many coincide. */
const port = fc.integer({ min: 29_998, max: 30_017 })
const address = fc.oneof(
  fc.integer({ min: 0, max: 17 }).map((last) => `10.0.0.${last}`),
  fc.integer({ min: 0, max: 17 }).map((last) => `fd00::${last.toString(16)}`),
  fc.constantFrom('10.0.0.03', '::ffff:10.0.0.4', '10.0.1.1', 'fd01::1', '192.0.2.1', 'not an address', ''),
)

/** A Service as it may be stored, with any items of the ranges above, of 10.0.0.0/28 and of fd00::/124. */
const service = fc
  .record({
    second: fc.integer({ min: 0, max: 2 }),
    ports: fc.array(
      fc.record({ nodePort: fc.option(port, { nil: undefined }), protocol: fc.constantFrom('TCP', 'UDP') }),
      {
        maxLength: 4,
      },
    ),
    health: fc.option(port, { nil: undefined }),
    clusterIPs: fc.oneof(
      { weight: 6, arbitrary: fc.array(address, { minLength: 1, maxLength: 2 }) },
      { weight: 1, arbitrary: fc.constant(['None']) },
    ),
  })
  .map(({ second, ports, health, clusterIPs }) => ({
    metadata: { creationTimestamp: `2026-01-01T00:00:0${second}Z` },
    spec: {
      type: 'NodePort',
      clusterIP: clusterIPs[0],
      clusterIPs,
      ports: ports.map((one, index) => ({ port: index + 1, ...one })),
      healthCheckNodePort: health,
    },
  }))

/** Services with different names. */
export const someServices: fc.Arbitrary<readonly Service[]> = fc.array(service, { maxLength: 12 }).map((all) =>
  all.map(
    (one, index) =>
      ({
        ...one,
        metadata: { ...one.metadata, namespace: 'default', name: `s${index}`, uid: `u${index}` },
      }) as Service,
  ),
)
