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
import { watchOutput } from './output.ts'
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
  const { gone } = watchOutput()
  try {
    if (own.watch) {
      await watch(source, render, AbortSignal.any([stop.signal, gone]))
    } else {
      const reading = await source.read(stop.signal)
      for (const note of notesOf(reading, source)) process.stderr.write(`${note}\n`)
      process.stdout.write(`${render(rowsOf(reading, source), reading).join('\n')}\n`)
    }
    return 0
  } catch (error) {
    if (own.watch && (stop.signal.aborted || gone.aborted)) return 0
    throw error
  } finally {
    await source.close()
    stop.release()
  }
}

type Render = (rows: readonly MasterRow[], reading: MastersReading) => readonly string[]

const renderTable: Render = (rows, { listed }) => {
  if (rows.length > 0) return mastersTable(rows)
  return [`no masters${listed === undefined ? '' : ', and nobody is listed'}`]
}

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
  let said = ''
  for (;;) {
    let notes: readonly string[]
    try {
      const reading = await source.read(signal)
      const rows = rowsOf(reading, source)
      lines = render(rows, reading)
      key = changeKey(rows)
      notes = notesOf(reading, source)
    } catch (error) {
      signal.throwIfAborted()
      if (!(error instanceof Error)) throw error
      notes = [printable(`cannot read the leases: ${error.message}`)]
    }
    if (inPlace) screen.show(notes.length === 0 ? lines : [...lines, '', ...notes], '')
    // Nothing piles up for a reader that stops: once it reads on, it gets what is so then.
    else if (lines.length > 0 && !process.stdout.writableNeedDrain) screen.show(lines, key)
    const news = notes.join('\n')
    if (!inPlace && news !== said) process.stderr.write(`${news || 'leases are there, and everything can be read'}\n`)
    said = news
    await sleep(source.clock, READ_INTERVAL_MS, signal)
  }
}

function rowsOf({ sightings, listed, verdict }: MastersReading, { clock }: MastersSource): readonly MasterRow[] {
  return mastersRows({ sightings, listed, verdict, nowMs: clock.wallMs() })
}

/** What a person must know beside the masters, a line each. */
function notesOf({ sightings, unlistedReason }: MastersReading, { place }: MastersSource): readonly string[] {
  return [
    ...(sightings.length === 0 ? [`no leases of masters ${place}`] : []),
    ...(unlistedReason === undefined ? [] : [`who is listed is not known: ${unlistedReason}`]),
  ].map(printable)
}
