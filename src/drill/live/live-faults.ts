import type { Scenario, Step } from '../scenario.ts'

/** What of a scenario cannot be drilled with real processes: one line each. Pure. */
export function liveFaults({ fleet, steps }: Scenario): readonly string[] {
  const faults: string[] = []
  if (fleet.leaseStore === 'memory') faults.push('fleet: leases in memory are out of reach of other processes')
  for (const { name, addresses, skewMs, driftPpm } of fleet.masters) {
    if (skewMs !== 0 || driftPpm !== 0) faults.push(`${name}: the clock of a real process cannot be set`)
    const real = addresses.find((address) => !isDocumentation(address))
    if (real !== undefined) {
      faults.push(
        `${name}: ${real} is no address for documentation (192.0.2.0/24, 198.51.100.0/24, 203.0.113.0/24, 2001:db8::/32), so somebody may have it`,
      )
    }
  }
  for (const step of steps) {
    const fault = stepFault(step)
    if (fault !== undefined) faults.push(`steps: ${fault}`)
  }
  return faults
}

function stepFault(step: Step): string | undefined {
  switch (step.action) {
    case 'clock-skew':
      return 'clock-skew cannot be done to real processes'
    case 'compact':
      return 'compact is not done to an etcd that is not ours'
    case 'random':
      return 'random steps are for the simulator'
    case 'datastore-outage':
      return step.how === 'full' ? 'datastore-outage with how: full is for the simulator, how: away is not' : undefined
    default:
      return undefined
  }
}

/** RFC 5737 and RFC 3849: nobody's. */
export function isDocumentation(address: string): boolean {
  return /^(?:192\.0\.2|198\.51\.100|203\.0\.113)\.\d+$|^2001:0?db8:/i.test(address)
}
