import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Service } from '../../../src/kube/resources.ts'
import { parsePortRange } from '../../../src/net/port-range.ts'
import { nodePortClaims } from '../../../src/repair/node-port/node-port-claims.ts'

const claims = nodePortClaims(parsePortRange('30000-30099'))

test('a port and a health check port are held, and one outside the range is told of', () => {
  const service = {
    metadata: { namespace: 'default', name: 'web', uid: 'u' },
    spec: {
      ports: [{ port: 80, nodePort: 30_001 }, { port: 81 }, { port: 82, nodePort: 30_100 }],
      healthCheckNodePort: 30_099,
    },
  } as Service
  const held: number[] = []
  const told: unknown[] = []
  claims.visit(
    service,
    (_, offset) => void held.push(offset),
    (finding) => void told.push(finding),
  )
  assert.deepEqual(held, [1, 99])
  assert.deepEqual(told, [
    {
      type: 'outOfRange',
      reason: 'PortOutOfRange',
      note: 'Port 30100 is not within the port range 30000-30099; please recreate service',
      regarding: { apiVersion: 'v1', kind: 'Service', metadata: service.metadata },
      item: '30100',
    },
  ])
})

test('a range is read as kube-apiserver writes it', () => {
  assert.equal(claims.parse('30000-32767')?.size, 2768)
  assert.equal(claims.parse('30000-32767')?.textAt(5), '30005')
  assert.equal(claims.parse('10.96.0.0/12'), undefined)
})
