import type { MemberState } from '../verify/member-state.ts'

/** How a member fares, as far as a history tells. */
export interface MemberStatus {
  readonly address: string
  readonly sidecar: 'running' | 'stopping' | 'frozen' | 'down'
  readonly server: 'ready' | 'unready' | 'silent' | 'down'
  /** What a client meets at its own port. */
  readonly clientsMeet: 'served' | 'refused' | 'black-holed'
  /** May still renew its lease. */
  readonly renewing: boolean
  /** Runs, is connected, and its server is ready. */
  readonly well: boolean
}

/** For a kube-apiserver both parts are one process. */
export function statusOf(member: MemberState): MemberStatus {
  const { address, frozen, ended, stopping, running, answering, ready, clientsMeet, renewing, well } = member
  return {
    address,
    sidecar: ended ? 'down' : frozen ? 'frozen' : running ? 'running' : stopping ? 'stopping' : 'down',
    server: clientsMeet === 'refused' ? 'down' : !answering ? 'silent' : ready ? 'ready' : 'unready',
    clientsMeet,
    renewing,
    well,
  }
}

export function isSameStatus(one: MemberStatus | undefined, other: MemberStatus): boolean {
  return (
    one !== undefined &&
    one.address === other.address &&
    one.sidecar === other.sidecar &&
    one.server === other.server &&
    one.clientsMeet === other.clientsMeet &&
    one.renewing === other.renewing &&
    one.well === other.well
  )
}
