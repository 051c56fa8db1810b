import assert from 'node:assert/strict'
import { test } from 'node:test'
import { recordRefusals } from '../../src/bootstrap/readiness-refusals.ts'
import type { EventToRecord } from '../../src/kube/event-object.ts'
import type { ReadinessAnswer } from '../../src/kube/readiness.ts'

test('each time that the server begins to refuse to tell its readiness is one Event', () => {
  const recorded: EventToRecord[] = []
  let hear: (answer: ReadinessAnswer, sentAtMs: number) => void = () => assert.fail()
  const monitor = {
    subscribe(handler: typeof hear) {
      hear = handler
      return () => {}
    },
  }
  recordRefusals(monitor, { record: (event) => recorded.push(event) }, '192.0.2.1')
  const ready: ReadinessAnswer = { answered: true, ready: true, checks: [] }
  const silent: ReadinessAnswer = { answered: false, reason: 'connection refused' }
  const refused: ReadinessAnswer = { answered: true, ready: false, checks: [], refused: '/readyz: HTTP status 401' }
  for (const answer of [ready, refused, refused, silent, refused, ready, refused]) hear(answer, 0)
  const note = 'the readiness of the API server of 192.0.2.1 cannot be judged: /readyz: HTTP status 401'
  assert.deepEqual(
    recorded.map(({ type, regarding, note }) => [type, regarding.kind, regarding.name, note]),
    [
      ['Warning', 'Endpoints', 'kubernetes', note],
      ['Warning', 'Endpoints', 'kubernetes', note],
    ],
  )
})
