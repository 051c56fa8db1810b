import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import type { Server } from 'node:net'
import { test } from 'node:test'
import { listenAnywhere } from '../../../src/drill/live/tcp-proxy.ts'

/** A server whose attempts to listen fail with these codes, one after the other, and then succeed. */
function serverThat(...failures: readonly string[]): { readonly server: Server; readonly ports: number[] } {
  const ports: number[] = []
  const server = Object.assign(new EventEmitter(), {
    listen(port: number) {
      const code = failures[ports.push(port) - 1]
      queueMicrotask(() => {
        if (code === undefined) server.emit('listening')
        else server.emit('error', Object.assign(new Error(code), { code }))
      })
    },
  })
  return { server: server as unknown as Server, ports }
}

test('listenAnywhere tries up to 100 ports while each is taken, and rejects at once on any other error', async () => {
  const taken = serverThat('EADDRINUSE', 'EADDRINUSE')
  assert.equal(await listenAnywhere(taken.server), taken.ports[2])
  assert.equal(taken.ports.length, 3)
  const refused = serverThat('EACCES')
  await assert.rejects(listenAnywhere(refused.server), { code: 'EACCES' })
  assert.equal(refused.ports.length, 1)
  const full = serverThat(...Array.from({ length: 200 }, () => 'EADDRINUSE'))
  await assert.rejects(listenAnywhere(full.server), { code: 'EADDRINUSE' })
  assert.equal(full.ports.length, 100)
})
