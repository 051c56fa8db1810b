import type { FaultRule } from '../apiserver/faults.ts'
import { parseDuration } from '../documents/duration.ts'
import { parsedText } from '../documents/option.ts'

type Fault = FaultRule['fault']

const EXPECTED =
  'must be status=400 to status=599, delay=DURATION, refuse, lose-request, lose-answer, garbage, cut-watch=NUMBER or lose-events'

/** The faults without a parameter, by their texts. */
const plainFaults = new Map<string, Fault>([
  ['refuse', { type: 'refuse' }],
  ['garbage', { type: 'garbage' }],
  ['lose-request', { type: 'drop', lost: 'request' }],
  ['lose-answer', { type: 'drop', lost: 'answer' }],
  ['lose-events', { type: 'lose' }],
])

/** Parses the value of `serve --fault`. @throws Error with one line */
export function parseFault(text: string): Fault {
  const plain = plainFaults.get(text)
  if (plain !== undefined) return plain
  const [name, value, ...more] = text.split('=')
  if (value === undefined || more.length > 0) throw new Error(EXPECTED)
  const number = /^\d{1,6}$/.test(value) ? Number(value) : undefined
  if (name === 'status' && number !== undefined && number >= 400 && number <= 599) {
    return { type: 'status', status: number }
  }
  if (name === 'delay') {
    const ms = parseDuration(value)
    if (ms >= 0) return { type: 'delay', ms }
  }
  if (name === 'cut-watch' && number !== undefined) return { type: 'cut', afterEvents: number }
  throw new Error(EXPECTED)
}

export function formatFault(fault: Fault): string {
  switch (fault.type) {
    case 'status':
      return `status=${fault.status}`
    case 'delay':
      return `delay=${fault.ms}ms`
    case 'drop':
      return `lose-${fault.lost}`
    case 'lose':
      return 'lose-events'
    case 'cut':
      return `cut-watch=${fault.afterEvents}`
    default:
      return fault.type
  }
}

export const faultText = parsedText(parseFault, formatFault)
