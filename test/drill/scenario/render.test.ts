import assert from 'node:assert/strict'
import { test } from 'node:test'
import { describeStep } from '../../../src/drill/scenario/render.ts'
import type { Step } from '../../../src/drill/scenario/scenario.ts'

test('describeStep names the action of a step, its masters and its parameters', () => {
  const described = (step: Step, ...masters: readonly string[]): string => describeStep(step, masters)
  const masters = ['master-2']
  const atMs = 5000
  assert.equal(
    described({ atMs, action: 'kill', masters, part: 'both', forMs: 30_000 }, 'master-2'),
    'kill master-2 (sidecar and server) for 30s',
  )
  assert.equal(
    described({ atMs, action: 'freeze', masters: 'all', part: 'server' }, 'master-1', 'master-2'),
    'freeze master-1 master-2 (server)',
  )
  assert.equal(
    described({ atMs, action: 'restart', masters, part: 'sidecar', signal: 'kill', pauseMs: 1500 }, 'master-2'),
    'restart master-2 (sidecar) by SIGKILL pause 1.5s',
  )
  const restart = { atMs, action: 'restart', masters, part: 'sidecar', signal: 'terminate', pauseMs: 0 } as const
  assert.equal(
    described({ ...restart, overlapMs: 3000 }, 'master-2'),
    'restart master-2 (sidecar) by SIGTERM overlap 3s',
  )
  assert.equal(
    described({ atMs, action: 'slow', masters, from: 'store', byMs: 2000, forMs: 60_000 }, 'master-2'),
    'slow master-2 from store by 2s for 1m0s',
  )
  assert.equal(
    described({ atMs, action: 'clock-skew', masters, byMs: -3_600_000 }, 'master-2'),
    'clock-skew master-2 by -1h0m0s',
  )
  assert.equal(
    described({ atMs, action: 'datastore-outage', how: 'away', forMs: 20_000 }),
    'datastore-outage away for 20s',
  )
  assert.equal(
    described(
      {
        ...{ atMs, action: 'requests-fail', masters, how: 'status', status: 429, retryAfterMs: 6000 },
        ...{ resource: 'leases', verb: 'update', requests: 2, forMs: 9000 },
      },
      'master-2',
    ),
    'requests-fail master-2 status 429 retry after 6s 2 requests update leases for 9s',
  )
  assert.equal(
    described({ atMs, action: 'requests-fail', masters, how: 'hang', only: 'probe', requests: 1 }, 'master-2'),
    'requests-fail master-2 hang 1 request probes only',
  )
  assert.equal(described({ atMs, action: 'damage', damage: 'slice-deleted' }), 'damage slice-deleted')
  assert.equal(described({ atMs, action: 'scale', to: 7 }), 'scale to 7')
  assert.equal(
    described(
      {
        atMs,
        action: 'roll-config',
        masters,
        settings: { leaseTtlMs: 3000, addresses: ['192.0.2.2', '2001:db8::2'] },
        pauseMs: 2000,
      },
      'master-2',
    ),
    'roll-config master-2 with leaseTtl=3s addresses=192.0.2.2,2001:db8::2 pause 2s',
  )
})
