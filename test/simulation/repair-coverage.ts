/** The races that must occur in a campaign, or it proves nothing about them. */
export const raceNames = [
  'a server ended with a Service half made',
  'a server ended before it had given everything back',
  'a refused request gave back what it had taken',
  'a Service was stored more than 30 s after its request',
  'a Service was stored, and what it holds given back',
  'a bit was leaked because its IPAddress was there',
  'an IPAddress was made for a Service that had just gone',
  'an IPAddress that came too late was taken back',
  'the server gave back what a repair had made',
  'a bit was set for a Service that had just gone',
  'a leaked bit was freed',
  'a bit that was set for a Service that gave it up just then was given back',
  'a leaked bit was cleared and taken again before it was freed',
  'an orphaned IPAddress was deleted after its grace',
  'an IPAddress in the making was there for more than 5 s',
  'a name was given to another Service while an IPAddress named it',
  'an IPAddress was made for a Service that was still ExternalName',
  'a range was overtaken by another writer',
  'an IPAddress was there already when a repair made it',
  'a delete by a repair met another IPAddress than it had seen',
  'an IPAddress that was damaged was made anew',
  'an IPAddress was labelled anew',
  'two Services got one address or port, because of damage or a server that gave it back twice',
  'a watch of a bitmap broke',
  'a relist was forced',
  'a master was killed',
  'a master was frozen',
] as const

export type RaceName = (typeof raceNames)[number]

/** Races that a few hundred seeds may miss. Thousands of seeds must not. */
export const rareRaces: ReadonlySet<RaceName> = new Set([
  'an IPAddress that came too late was taken back',
  'an IPAddress was made for a Service that had just gone',
  'a bit was set for a Service that had just gone',
])

/** Counts how often each race occurred. */
export class RepairCoverage {
  readonly counts = new Map<string, number>()

  count(race: RaceName): void {
    this.counts.set(race, (this.counts.get(race) ?? 0) + 1)
  }
}
