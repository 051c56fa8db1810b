import assert from 'node:assert/strict'
import { InvalidInputError } from '../../../src/documents/validation.ts'
import { parseScenario } from '../../../src/drill/scenario/parse.ts'

/** A file without mistakes. */
export const base = `apiVersion: apiserver-bootstrap/v1alpha1
kind: Drill
name: mine
description: Something.
fleet:
  masters: 3
steps:
  - at: 5s
    action: kill
    masters: [master-2]
`

/** The mistakes that the parser finds in a text, without the name of the file. */
export function mistakesIn(text: string): readonly string[] {
  try {
    parseScenario(text, 'f')
  } catch (error) {
    assert.ok(error instanceof InvalidInputError, String(error))
    return error.mistakes.map(({ where, message }) => `${where}: ${message}`.replace(/^f:/, ''))
  }
  return []
}

/** The file without mistakes, with `from` replaced. */
export function replaced(from: string, to: string): string {
  assert.ok(base.includes(from), from)
  return base.replace(from, to)
}
