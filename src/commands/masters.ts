import { takeOwnOptions } from '../config/own-options.ts'
import type { Flags } from '../config/resolve.ts'
import { sleep } from '../runtime/clock.ts'
import { printable, printableLines } from '../runtime/printable.ts'
import { mastersJson } from './masters-json.ts'
import { mastersOptions } from './masters-options.ts'
import { type MasterRow, mastersRows } from './masters-rows.ts'
import { MastersScreen } from './masters-screen.ts'
import { type MastersReading, type MastersSource, openMasters, READ_INTERVAL_MS } from './masters-source.ts'
import { changeKey, mastersTable } from './masters-table.ts'
import { stopSignals } from './stop-signals.ts'

/**
 * Shows the masters once, or with `--watch` until SIGINT or SIGTERM; ends with 0 then. Throws, before anything is contacted, an
 * InvalidInputError with what is wrong with the configuration, and what the leases could not be read for.
 */
export async function execute(flags: Flags): Promise<number> {
  const { own, rest } = takeOwnOptions(mastersOptions, flags)
  const stop = stopSignals()
  const source = await openMasters(rest)
  const render = own.output === 'json' ? renderJson(source, own.watch) : renderTable
  const unread = new AbortController()
  // Whoever read the output has seen enough.
  process.stdout.on('error', (error) => unread.abort(error))
  try {
    if (own.watch) {
      await watch(source, render, AbortSignal.any([stop.signal, unread.signal]))
    } else {
      const reading = await source.read(stop.signal)
      noteUnlisted(reading)
      process.stdout.write(`${render(rowsOf(reading, source), reading).join('\n')}\n`)
    }
    return 0
  } catch (error) {
    if (own.watch && (stop.signal.aborted || unread.signal.aborted)) return 0
    throw error
  } finally {
    await source.close()
    stop.release()
  }
}

type Render = (rows: readonly MasterRow[], reading: MastersReading) => readonly string[]

const renderTable: Render = (rows, { listed }) => mastersTable(rows, listed !== undefined)

/** One line each time, where there is more than one time. */
function renderJson({ leaseStore }: MastersSource, compact: boolean): Render {
  return (rows, { listed }) => [
    printableLines(JSON.stringify(mastersJson(rows, { leaseStore, listed }), undefined, compact ? undefined : 2)),
  ]
}

async function watch(source: MastersSource, render: Render, signal: AbortSignal): Promise<never> {
  const inPlace = process.stdout.isTTY && render === renderTable
  const linewise = render !== renderTable
  const screen = new MastersScreen(inPlace ? process.stdout : { write: (text) => process.stdout.write(text) }, {
    linewise,
  })
  let lines: readonly string[] = []
  let key = ''
  let said: string | undefined
  for (;;) {
    let trouble: string | undefined
    try {
      const reading = await source.read(signal)
      const rows = rowsOf(reading, source)
      lines = render(rows, reading)
      key = changeKey(rows)
      trouble = reading.unlistedReason === undefined ? undefined : unlisted(reading.unlistedReason)
    } catch (error) {
      signal.throwIfAborted()
      if (!(error instanceof Error)) throw error
      trouble = printable(`cannot read the leases: ${error.message}`)
    }
    if (inPlace) screen.show(trouble === undefined ? lines : [...lines, '', trouble], '')
    // Nothing piles up for a reader that stops: once it reads on, it gets what is so then.
    else if (lines.length > 0 && !process.stdout.writableNeedDrain) screen.show(lines, key)
    if (!inPlace && trouble !== said) process.stderr.write(`${trouble ?? 'everything can be read again'}\n`)
    said = trouble
    await sleep(source.clock, READ_INTERVAL_MS, signal)
  }
}

function rowsOf({ sightings, listed, verdict }: MastersReading, { clock }: MastersSource): readonly MasterRow[] {
  return mastersRows({ sightings, listed, verdict, nowMs: clock.wallMs() })
}

function noteUnlisted({ unlistedReason }: MastersReading): void {
  if (unlistedReason !== undefined) process.stderr.write(`${unlisted(unlistedReason)}\n`)
}

function unlisted(reason: string): string {
  return printable(`who is listed is not known: ${reason}`)
}
