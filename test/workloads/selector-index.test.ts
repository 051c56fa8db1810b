import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Labels, matches, SelectorIndex, sameLabels } from '../../src/workloads/selector-index.ts'

interface Selecting {
  readonly name: string
  readonly selector: Labels
}

interface Labelled {
  readonly name: string
  readonly labels: Labels | undefined
}

/** An index, and its objects and selectors by name. It counts how often the index searched through all objects. */
class Indexed {
  searches = 0
  readonly #objects = new Map<string, Labelled>()
  readonly #selectors = new Map<string, Selecting>()
  readonly index = new SelectorIndex<Selecting, Labelled>(() => {
    this.searches++
    return this.#objects.values()
  })

  select(selectors: Readonly<Record<string, Labels>>): this {
    for (const [name, selector] of Object.entries(selectors)) {
      this.#selectors.set(name, { name, selector })
      this.index.addSelector(this.selector(name))
    }
    return this
  }

  unselect(...names: readonly string[]): this {
    for (const name of names) this.index.deleteSelector(this.selector(name))
    return this
  }

  add(objects: Readonly<Record<string, Labels | undefined>>): this {
    for (const [name, labels] of Object.entries(objects)) {
      const object = { name, labels }
      this.#objects.set(name, object)
      this.index.add(object)
    }
    return this
  }

  delete(...names: readonly string[]): this {
    for (const name of names) {
      const object = this.#objects.get(name)
      assert.ok(object !== undefined)
      this.#objects.delete(name)
      this.index.delete(object)
    }
    return this
  }

  selector(name: string): Selecting {
    const found = this.#selectors.get(name)
    assert.ok(found !== undefined)
    return found
  }

  /** The names of the selectors that match. */
  selecting(labels: Labels | undefined): string {
    return namesOf(this.index.selecting(labels))
  }

  /** The names of the objects that match. */
  matching(name: string): string {
    return namesOf(this.index.matching(this.selector(name)))
  }
}

function namesOf(all: readonly { readonly name: string }[]): string {
  return all
    .map(({ name }) => name)
    .sort()
    .join(' ')
}

test('a selector matches only objects with all of its labels, whatever other labels they have', () => {
  const indexed = new Indexed().select({ s: { app: 'web', tier: 'front' } })
  indexed.add({
    all: { app: 'web', tier: 'front' },
    more: { zone: 'z', app: 'web', rack: 'r', tier: 'front' },
    one: { app: 'web' },
    otherValue: { app: 'web', tier: 'back' },
    swapped: { app: 'front', tier: 'web' },
    none: {},
    absent: undefined,
  })
  assert.equal(indexed.matching('s'), 'all more')
  assert.equal(indexed.selecting({ zone: 'z', app: 'web', rack: 'r', tier: 'front' }), 's')
  for (const labels of [{ app: 'web' }, { tier: 'front' }, { app: 'front', tier: 'web' }, {}, undefined]) {
    assert.equal(indexed.selecting(labels), '')
  }
})

test('a selector matches objects that were added before or after it', () => {
  const indexed = new Indexed().add({ a: { app: 'web' }, b: { tier: 'x', app: 'web' }, c: { app: 'db' } })
  indexed.select({ web: { app: 'web' }, db: { app: 'db' } }).add({ d: { tier: 'x', app: 'web' }, e: { app: 'db' } })
  assert.equal(indexed.matching('web'), 'a b d')
  assert.equal(indexed.matching('db'), 'c e')
  // An object with a known key, but with a value that no selector has yet.
  indexed.add({ f: { app: 'cache' } }).select({ cache: { app: 'cache' } })
  assert.equal(indexed.matching('cache'), 'f')
})

test('an object is found by each of its labels until it is deleted', () => {
  const indexed = new Indexed().select({ app: { app: 'web' }, tier: { tier: 'front' } })
  indexed.add({ a: { zone: 'z', app: 'web', tier: 'front' }, b: { app: 'web', tier: 'front' } })
  assert.equal(indexed.selecting({ app: 'web', tier: 'front' }), 'app tier')
  indexed.delete('a')
  assert.deepEqual([indexed.matching('app'), indexed.matching('tier')], ['b', 'b'])
  indexed.delete('b')
  assert.deepEqual([indexed.matching('app'), indexed.matching('tier')], ['', ''])
  assert.equal(indexed.selecting({ app: 'web' }), 'app', 'the selector stays')
  assert.equal(indexed.add({ c: { app: 'web' } }).matching('app'), 'c')
})

test('an object without an indexed label is deleted without a trace', () => {
  const indexed = new Indexed()
    .add({ a: { app: 'web' }, b: undefined })
    .delete('a', 'b')
    .select({ s: { app: 'web' } })
  assert.equal(indexed.matching('s'), '')
})

test('an empty selector matches everything, with labels or without, until it is deleted', () => {
  const indexed = new Indexed().select({ all: {}, every: {}, some: { app: 'web' } })
  indexed.add({ a: { app: 'web' }, b: undefined, c: {} })
  assert.equal(indexed.matching('all'), 'a b c')
  assert.equal(indexed.selecting({ app: 'web' }), 'all every some')
  assert.equal(indexed.selecting(undefined), 'all every')
  assert.equal(indexed.unselect('all').selecting(undefined), 'every')
  assert.equal(indexed.matching('all'), '')
  assert.equal(indexed.matching('every'), 'a b c')
})

test('a deleted selector is not found and matches nothing, and other selectors stay', () => {
  const indexed = new Indexed().add({ a: { app: 'web' } })
  indexed.select({ one: { app: 'web' }, two: { app: 'web' }, three: { app: 'db' } })
  assert.equal(indexed.index.size, 3)
  indexed.unselect('one', 'one')
  assert.equal(indexed.index.size, 2)
  assert.deepEqual([indexed.matching('one'), indexed.matching('two')], ['', 'a'])
  assert.equal(indexed.selecting({ app: 'web' }), 'two')
  assert.equal(indexed.unselect('two').selecting({ app: 'web' }), '')
  assert.equal(indexed.selecting({ app: 'db' }), 'three')
  indexed.unselect('three')
  assert.equal(indexed.index.size, 0)
  // The next selector finds an object that was added while no selector asked for its labels.
  indexed.add({ b: { app: 'web' } }).select({ again: { app: 'web' } })
  assert.equal(indexed.matching('again'), 'a b')
})

test('a selector that was never added matches nothing', () => {
  const indexed = new Indexed().add({ a: { app: 'web' } }).select({ s: { app: 'web' } })
  for (const selector of [{}, { app: 'web' }]) {
    const stranger = { name: 'stranger', selector }
    indexed.index.deleteSelector(stranger)
    assert.deepEqual(indexed.index.matching(stranger), [])
  }
  assert.equal(indexed.matching('s'), 'a')
  assert.equal(indexed.index.size, 1)
})

test('two selectors with the same labels are both found', () => {
  const indexed = new Indexed().select({ one: { app: 'web' }, two: { app: 'web' } }).add({ a: { app: 'web' } })
  assert.equal(indexed.selecting({ app: 'web' }), 'one two')
  assert.deepEqual([indexed.matching('one'), indexed.matching('two')], ['a', 'a'])
})

test('only a selector with a new key searches through all objects', () => {
  const indexed = new Indexed().add({ a: { app: 'web' }, b: { app: 'db', tier: 'x' } })
  indexed.select({ one: { app: 'web' }, two: { app: 'db' } })
  assert.equal(indexed.searches, 1)
  indexed.unselect('one').select({ three: { app: 'web' } })
  assert.equal(indexed.searches, 1)
  assert.deepEqual([indexed.matching('two'), indexed.matching('three')], ['b', 'a'])
  indexed.unselect('two', 'three').select({ four: { app: 'web' } })
  assert.equal(indexed.searches, 2)
})

test('a selector is indexed by the label that the fewest other selectors have', () => {
  const asked: string[] = []
  const spied = (selector: Labels): Labels =>
    new Proxy(selector, {
      get: (labels, key: string) => {
        asked.push(key)
        return labels[key]
      },
    })
  const indexed = new Indexed().select({ one: { app: 'web' }, two: { app: 'web' }, other: { zone: 'z' } })
  for (const selector of [
    { app: 'web', zone: 'z' },
    { zone: 'z', app: 'web' },
  ]) {
    indexed.select({ three: spied(selector) })
    asked.length = 0
    assert.equal(indexed.selecting({ app: 'web', zone: 'a' }), 'one two')
    assert.deepEqual(asked, [], 'endpoints of another zone are not compared')
    assert.equal(indexed.selecting({ app: 'web', zone: 'z' }), 'one other three two')
    indexed.unselect('three')
  }
})

test('matches() requires all labels of the selector', () => {
  assert.ok(matches({}, undefined))
  assert.ok(matches({}, { a: '1' }))
  assert.ok(matches({ a: '1', b: '2' }, { b: '2', c: '3', a: '1' }))
  assert.ok(!matches({ a: '1' }, undefined))
  assert.ok(!matches({ a: '1', b: '2' }, { a: '1' }))
  assert.ok(!matches({ a: '1', b: '2' }, { a: '1', b: '1' }))
  assert.ok(!matches({ a: '2', b: '2' }, { a: '1', b: '2' }))
})

test('sameLabels ignores the order, and treats empty labels as absent ones', () => {
  const labels = { a: '1', b: '2' }
  assert.ok(sameLabels(labels, labels))
  assert.ok(sameLabels(labels, { b: '2', a: '1' }))
  assert.ok(sameLabels(undefined, {}))
  assert.ok(sameLabels({}, undefined))
  for (const other of [{ a: '1' }, { a: '1', b: '1' }, { a: '1', b: '2', c: '3' }, { a: '1', c: '2' }, {}, undefined]) {
    assert.ok(!sameLabels(labels, other))
    assert.ok(!sameLabels(other, labels))
  }
})
