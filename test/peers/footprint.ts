import { readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'

/** Numbers that grow in a process that leaks. */
export interface Footprint {
  /** Established TCP connections to the given ports. */
  readonly connections: number
  /** All open file descriptors. */
  readonly descriptors: number
}

const established = '01'

/** Counts in /proc what a process has open now, and how many of its connections lead to one of `ports`. Linux only. */
export function footprintOf(pid: number, ports: readonly number[]): Footprint {
  const targets = readdirSync(`/proc/${pid}/fd`).map((fd) => targetOf(`/proc/${pid}/fd/${fd}`))
  const inodes = new Set(targets.map((target) => /^socket:\[(\d+)\]$/.exec(target)?.[1]))
  const connections = readFileSync(`/proc/${pid}/net/tcp`, 'utf8')
    .split('\n')
    .slice(1)
    .map((line) => line.trim().split(/\s+/))
    .filter(
      ([, , remote, state, , , , , , inode]) =>
        state === established && inodes.has(inode) && ports.includes(portOf(remote)),
    )
  return { connections: connections.length, descriptors: targets.filter((target) => target !== '').length }
}

/** Resident memory in MiB, as /proc reports it. Linux only. */
export function residentMib(pid: number): number {
  return statusMib(pid, 'VmRSS')
}

/** The peak of resident memory since the start, or since the last {@link resetPeakResident}, in MiB. Linux only. */
export function peakResidentMib(pid: number): number {
  return statusMib(pid, 'VmHWM')
}

export function resetPeakResident(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, '5')
}

function statusMib(pid: number, field: string): number {
  const kib = new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
  return Number(kib) / 1024
}

/** Empty for a descriptor that was closed while the list was read. */
function targetOf(link: string): string {
  try {
    return readlinkSync(link)
  } catch {
    return ''
  }
}

function portOf(hexAddress = ''): number {
  return Number.parseInt(hexAddress.split(':')[1] ?? '', 16)
}
