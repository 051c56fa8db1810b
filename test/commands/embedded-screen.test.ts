import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createApiServer } from '../../src/apiserver/api-server.ts'
import { inProcessTransport } from '../../src/apiserver/in-process.ts'
import { EmbeddedScreen } from '../../src/commands/embedded-screen.ts'
import { namespaces } from '../../src/kube/resources.ts'
import { restKubeApi } from '../../src/kube/rest-api.ts'
import { systemClock } from '../../src/runtime/system-clock.ts'
import { systemRandom } from '../../src/runtime/system-random.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'

/** A screen on which an empty server, to which namespace `blue` is added and removed, was watched. */
async function watched(terminal: { isTTY?: boolean; columns?: number; rows?: number }): Promise<readonly string[]> {
  const surroundings = { clock: systemClock, random: systemRandom(), logger: silentLogger }
  const transport = inProcessTransport(createApiServer(surroundings))
  const api = restKubeApi({ transport, ...surroundings })
  const writes: string[] = []
  const screen = new EmbeddedScreen({ ...terminal, write: (text) => writes.push(text) })
  const end = new AbortController()
  const running = screen.run({ ...surroundings, api }, 'head', end.signal)
  const seen = async (pattern: RegExp): Promise<void> => {
    for (let i = 0; i < 400 && !pattern.test(writes.at(-1) ?? ''); i++) await sleep(5)
    assert.match(writes.at(-1) ?? '', pattern)
  }
  await api.create(namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'blue' } })
  await seen(/Namespace +blue/)
  screen.write('a log line\n')
  await api.delete(namespaces, { name: 'blue' })
  await seen(terminal.isTTY ? /STATE\n\na log line/ : /^- Namespace blue/)
  end.abort()
  await running
  await transport.close()
  return writes
}

test('on a terminal the table is drawn over itself on change, with the log below', async () => {
  const writes = await watched({ isTTY: true, columns: 80, rows: 24 })
  assert.ok(writes[0]?.startsWith('\u001b[0Jhead\n\nKIND'), writes[0])
  for (const [index, text] of writes.entries()) {
    const before = writes[index - 1]
    if (before !== undefined) assert.ok(text.startsWith(`\u001b[${before.split('\n').length - 1}A\u001b[0J`), text)
  }
})

test('elsewhere each change is a line', async () => {
  const writes = await watched({})
  assert.equal(writes[0], 'head\n')
  assert.equal(writes[1], '+ Namespace blue: Active\n')
  assert.equal(writes.at(-1), '- Namespace blue\n')
  for (const text of writes) assert.ok(!text.includes('\u001b') && !text.includes('a log line'), text)
})
