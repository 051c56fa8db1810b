import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { WorkQueue } from '../../src/runtime/work-queue.ts'

/** What the queue should hold, written as simply as possible. */
interface Model {
  readonly waiting: string[]
  readonly dirty: Set<string>
  readonly processing: Set<string>
  /** When each delay ends. Delays that end together end in the order of this map. */
  readonly delayed: Map<string, number>
  nowMs: number
}

interface Real {
  readonly time: VirtualClock
  readonly queue: WorkQueue
}

type Command = fc.AsyncCommand<Model, Real>

function add(model: Model, key: string): void {
  if (model.dirty.has(key)) return
  model.dirty.add(key)
  if (!model.processing.has(key)) model.waiting.push(key)
}

const addKey = (key: string): Command => ({
  check: () => true,
  async run(model, { queue }) {
    add(model, key)
    queue.add(key)
    assert.equal(queue.length, model.waiting.length)
  },
  toString: () => `add ${key}`,
})

const addAfter = (key: string, delayMs: number): Command => ({
  check: () => true,
  async run(model, { queue }) {
    queue.addAfter(key, delayMs)
    const dueMs = model.nowMs + delayMs
    if (delayMs === 0) add(model, key)
    else if (dueMs < (model.delayed.get(key) ?? Infinity)) {
      model.delayed.delete(key)
      model.delayed.set(key, dueMs)
    }
    assert.equal(queue.length, model.waiting.length)
  },
  toString: () => `add ${key} after ${delayMs}`,
})

const get: Command = {
  check: (model) => model.waiting.length > 0,
  async run(model, { queue }) {
    const expected = model.waiting.shift() as string
    model.dirty.delete(expected)
    assert.ok(!model.processing.has(expected), 'two workers on one key')
    model.processing.add(expected)
    assert.equal(await queue.get(), expected)
  },
  toString: () => 'get',
}

const done = (pick: number): Command => ({
  check: (model) => model.processing.size > 0,
  async run(model, { queue }) {
    const key = [...model.processing][pick % model.processing.size] as string
    model.processing.delete(key)
    if (model.dirty.has(key)) model.waiting.push(key)
    queue.done(key)
    assert.equal(queue.length, model.waiting.length)
  },
  toString: () => `done ${pick}`,
})

const advance = (ms: number): Command => ({
  check: () => true,
  async run(model, { time, queue }) {
    model.nowMs += ms
    const due = [...model.delayed].filter(([, dueMs]) => dueMs <= model.nowMs).sort(([, a], [, b]) => a - b)
    for (const [key] of due) {
      model.delayed.delete(key)
      add(model, key)
    }
    await time.advance(ms)
    assert.equal(queue.length, model.waiting.length)
  },
  toString: () => `advance ${ms}`,
})

test('under any sequence of operations the queue hands out the same keys as a simple model', async () => {
  const key = fc.constantFrom('a', 'b', 'c', 'd')
  const commands = fc.commands(
    [
      key.map(addKey),
      fc.tuple(key, fc.nat(5)).map(([name, delayMs]) => addAfter(name, delayMs)),
      fc.constant(get),
      fc.constant(get),
      fc.nat(9).map(done),
      fc.integer({ min: 1, max: 4 }).map(advance),
    ],
    { maxCommands: 60 },
  )
  await fc.assert(
    fc.asyncProperty(commands, async (sequence) => {
      await fc.asyncModelRun(() => {
        const time = new VirtualClock()
        return {
          model: { waiting: [], dirty: new Set<string>(), processing: new Set<string>(), delayed: new Map(), nowMs: 0 },
          real: { time, queue: new WorkQueue({ clock: time.view() }) },
        }
      }, sequence)
    }),
    { numRuns: 300 },
  )
})
