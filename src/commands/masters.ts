import { type Flags, takeOwnOptions } from '../config/resolve.ts'
import { humanDuration } from '../documents/duration.ts'
import { InvalidInputError } from '../documents/validation.ts'
import type { MasterRow } from '../kubernetes-service/masters/masters.ts'
import type { HostPort } from '../net/host-port.ts'
import { sleep } from '../runtime/clock.ts'
import { printable, printableLines } from '../runtime/errors.ts'
import { aborted } from '../runtime/signals.ts'
import { systemRandom } from '../runtime/system-clock.ts'
import { silentLogger } from '../telemetry/logger.ts'
import { type MastersReading, type MastersSource, openMasters, READ_INTERVAL_MS } from './masters-source.ts'
import { mastersOptions } from './options.ts'
import { presentable, print, redraw, type Screen, watchOutput } from './output.ts'
import { stopSignals } from './stop-signals.ts'

/**
 * Shows the masters once, or with `--watch` or `--web` until SIGINT or SIGTERM, and resolves with 0. Throws an
 * InvalidInputError for mistakes of the command line or the configuration, before it contacts a server. With `--web` it
 * throws a ListenError if it cannot listen. Without `--watch` and `--web` it throws if the leases cannot be read.
 */
export async function execute(flags: Flags): Promise<number> {
  const { own, rest } = takeOwnOptions(mastersOptions, flags)
  if (own.web !== undefined && (own.watch || own.output !== 'table')) {
    throw new InvalidInputError([{ where: '--web', message: 'shows a page instead of --watch and --output' }])
  }
  const source = await openMasters(rest)
  const stop = stopSignals()
  const render = own.output === 'json' ? renderJson(source, own.watch) : renderTable
  const { gone } = watchOutput()
  try {
    if (own.web !== undefined) {
      await showPage(own.web, source, AbortSignal.any([stop.signal, gone]))
    } else if (own.watch) {
      await watch(source, render, AbortSignal.any([stop.signal, gone]))
    } else {
      const reading = await source.read(stop.signal)
      for (const note of notesOf(reading, source)) process.stderr.write(`${note}\n`)
      process.stdout.write(`${render(reading).join('\n')}\n`)
    }
    return 0
  } catch (error) {
    if ((own.watch || own.web !== undefined) && (stop.signal.aborted || gone.aborted)) return 0
    throw error
  } finally {
    await source.close()
    stop.release()
  }
}

async function showPage(address: HostPort, masters: MastersSource, signal: AbortSignal): Promise<void> {
  const { openStatusPage } = await import('./status-page/http-status-page.ts')
  const { StatusSource } = await import('./status-page/status-source.ts')
  const page = await openStatusPage(address, silentLogger)
  page.start(async () => new StatusSource(masters, systemRandom()))
  try {
    await print(`page: ${page.url} (Ctrl-C ends it)\n`)
    await aborted(signal)
  } finally {
    await page.close()
  }
}

type Render = (reading: MastersReading) => readonly string[]

const renderTable: Render = ({ rows, listed }) => {
  if (rows.length > 0) return mastersTable(rows)
  return [`no masters${listed === undefined ? '' : ', and none is listed'}`]
}

/** `compact`: the list is a single line, because more lists follow. */
function renderJson({ leaseStore }: MastersSource, compact: boolean): Render {
  return ({ rows, listed }) => [
    printableLines(JSON.stringify(mastersJson(rows, { leaseStore, listed }), undefined, compact ? undefined : 2)),
  ]
}

async function watch(source: MastersSource, render: Render, signal: AbortSignal): Promise<never> {
  const inPlace = process.stdout.isTTY && render === renderTable
  const output = inPlace ? process.stdout : { write: (text: string) => process.stdout.write(text) }
  const screen = new MastersScreen(output, { linewise: render !== renderTable })
  let lines: readonly string[] = []
  let key = ''
  let printed = ''
  for (;;) {
    let notes: readonly string[]
    try {
      const reading = await source.read(signal)
      lines = render(reading)
      key = changeKey(reading.rows)
      notes = notesOf(reading, source)
    } catch (error) {
      signal.throwIfAborted()
      if (!(error instanceof Error)) throw error
      notes = [presentable(`cannot read the leases: ${error.message}`)]
    }
    if (inPlace) screen.show(notes.length === 0 ? lines : [...lines, '', ...notes], '')
    // While the reader of the output pauses, states are not printed, so that no output accumulates in memory.
    else if (lines.length > 0 && !process.stdout.writableNeedDrain) screen.show(lines, key)
    const current = notes.join('\n')
    if (!inPlace && current !== printed)
      process.stderr.write(`${current || 'leases were found, and all sources can be read'}\n`)
    printed = current
    await sleep(source.clock, READ_INTERVAL_MS, signal)
  }
}

/** Notes for a person, one line each, about leases and addresses that were not found or could not be read. */
function notesOf({ leases, unlistedReason }: MastersReading, { place }: MastersSource): readonly string[] {
  return [
    ...(leases.length === 0 ? [`no leases of masters ${place}`] : []),
    ...(unlistedReason === undefined ? [] : [`the listed addresses are unknown: ${unlistedReason}`]),
  ].map(presentable)
}

/** The masters as one object for programs; docs/masters.md describes the fields. Unknown values are null. Pure. */
export function mastersJson(
  rows: readonly MasterRow[],
  about: { readonly leaseStore: string; readonly listed: readonly string[] | undefined },
): object {
  return {
    apiVersion: 'apiserver-bootstrap/v1alpha1',
    kind: 'MasterList',
    leaseStore: about.leaseStore,
    listedAddresses: about.listed ?? null,
    masters: rows.map(({ address, holder, ageMs, life, verdict, leased, listed, conflicts, id, revision }) => ({
      address: address ?? null,
      holder: holder?.instanceId ?? null,
      host: holder?.host ?? null,
      startedAt: holder?.startedAt ?? null,
      ageSeconds: seconds(ageMs),
      hasLease: leased,
      neverEnds: life?.type === 'never',
      leftSeconds: life === undefined || life.type === 'never' || !leased ? null : seconds(life.leftMs),
      live: verdict === undefined || verdict === 'unknown' ? null : verdict === 'live',
      listed: listed ?? null,
      state: holder?.state ?? null,
      ready: holder === undefined ? null : holder.state === 'ready',
      conflicts,
      id: id ?? null,
      revision: revision ?? null,
    })),
  }
}

function seconds(ms: number | undefined): number | null {
  return ms === undefined ? null : Math.max(0, Math.trunc(ms / 1000))
}

/**
 * Redraws a terminal in place. On other outputs, prints the whole contents each time that the key of {@link show}
 * changes.
 */
export class MastersScreen {
  readonly #screen: Screen
  readonly #linewise: boolean
  #drawnLines = 0
  #shown: string | undefined

  /** `linewise`: each update is a single line for programs, so no empty line separates updates. */
  constructor(screen: Screen, options: { readonly linewise?: boolean } = {}) {
    this.#screen = screen
    this.#linewise = options.linewise ?? false
  }

  /**
   * `key` must change with every difference that a person wants to see. Lines alone may change, for example with the
   * time.
   */
  show(lines: readonly string[], key: string): void {
    if (this.#screen.isTTY) {
      this.#drawnLines = redraw(this.#screen, lines, this.#drawnLines)
    } else if (key !== this.#shown) {
      const gap = this.#shown === undefined || this.#linewise ? '' : '\n'
      this.#screen.write(`${gap}${lines.join('\n')}\n`)
    }
    this.#shown = key
  }
}

const HEADS = ['ADDRESS', 'HOLDER', 'HOST', 'AGE', 'LEFT', 'LISTED', 'READY', 'CONFLICTS'] as const

/** A person can distinguish two instance ids by this number of characters. */
const HOLDER_LENGTH = 8
/**
 * The most characters of a host name. A longer one, of --hostname-override or a forged Lease, would push columns off
 * the screen.
 */
const HOST_LENGTH = 63

/**
 * The masters as a table of lines without trailing spaces. `-` stands for unknown. Pure.
 * @param rows - at least one.
 */
export function mastersTable(rows: readonly MasterRow[]): readonly string[] {
  const cells = [HEADS, ...rows.map(cellsOf)]
  const widths = HEADS.map((_, column) => Math.max(...cells.map((line) => line[column]?.length ?? 0)))
  return cells.map((line) =>
    line
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  )
}

/**
 * The `key` of a table for {@link MastersScreen.show}. It does not contain values that only change with time, such as
 * the age.
 */
export function changeKey(rows: readonly MasterRow[]): string {
  return JSON.stringify(
    rows.map(({ address, holder, verdict, listed, conflicts, leased, id }) => {
      const { instanceId, state } = holder ?? {}
      // An unknown verdict counts as live, which is the normal case.
      return [address, id, instanceId, state, verdict === 'stale', listed, leased, conflicts.map(({ code }) => code)]
    }),
  )
}

function cellsOf(row: MasterRow): readonly string[] {
  const { address, holder, ageMs, listed, conflicts } = row
  return [
    address ?? '-',
    holder?.instanceId.slice(0, HOLDER_LENGTH) ?? '-',
    (holder?.host ?? '-').slice(0, HOST_LENGTH),
    ageMs === undefined ? '-' : humanDuration(ageMs),
    leftOf(row),
    listed === undefined ? '-' : listed ? 'yes' : 'no',
    readyOf(row),
    conflicts.map(({ message }) => message).join('; ') || '-',
  ].map((cell) => narrow(printable(cell)))
}

/** `text` with escapes in place of characters that may take two cells of a terminal, such as those of Chinese. */
function narrow(text: string): string {
  return text.replaceAll(/[\u1100-\u200f\u203b-\u{10ffff}]/gu, (character) => {
    return `\\u{${character.codePointAt(0)?.toString(16)}}`
  })
}

function leftOf({ life, verdict, leased }: MasterRow): string {
  if (life === undefined || !leased) return '-'
  switch (life.type) {
    case 'never':
      return 'never'
    case 'ends':
      return humanDuration(life.leftMs)
    case 'renewed':
      if (verdict === 'stale') return 'over'
      return life.leftMs === undefined ? '-' : `~${humanDuration(life.leftMs)}`
  }
}

/**
 * `-` without a record: other masters count such a master as ready while it renews its lease, but it may be unready.
 */
function readyOf({ holder }: MasterRow): string {
  return holder?.state === 'ready' ? 'yes' : (holder?.state ?? '-')
}
