import { printable } from '../runtime/errors.ts'
import { type CommandFlags, shellLine } from '../verify/cluster/finding.ts'
import type { CheckResult, VerifyReport } from '../verify/cluster/verify-cluster.ts'

/** How many findings of one check a person is shown. */
const MAX_SHOWN = 10

/** The report for a person: a line for each check, then each finding with its commands. Ends with a newline. Pure. */
export function renderTable(report: VerifyReport, flags: CommandFlags): string {
  const { results } = report
  const width = Math.max(...results.map(({ id }) => id.length))
  const lines = results.map((result) => `${result.id.padEnd(width)}  ${result.status.padEnd(7)}  ${shortOf(result)}`)
  const details = results.flatMap((result) => detailsOf(result, flags))
  return `${[...lines, ...details, '', summaryOf(report)].join('\n')}\n`
}

/** How many checks ended how, as one line. */
export function summaryOf({ results }: VerifyReport): string {
  const count = (status: CheckResult['status']): number => results.filter((one) => one.status === status).length
  return `${count('held')} held, ${count('failed')} failed, ${count('skipped')} skipped`
}

function shortOf(result: CheckResult): string {
  switch (result.status) {
    case 'held':
      return printable(result.found)
    case 'skipped':
      return printable(result.reason)
    case 'failed': {
      const [first, ...others] = result.findings
      const more = others.length === 0 ? '' : `, and ${others.length} more`
      return printable(`${first?.object}: ${first?.found}${more}`)
    }
  }
}

function detailsOf(result: CheckResult, flags: CommandFlags): readonly string[] {
  if (result.status !== 'failed') return []
  const { findings, id, why } = result
  const shown = findings.slice(0, MAX_SHOWN)
  const rest = findings.length - shown.length
  return [
    '',
    `${id}: ${why}`,
    ...shown.flatMap(({ object, expected, found, remedy }, index) => {
      const line = shellLine(remedy, flags)
      const isRepeated = index > 0 && shellLine(shown[index - 1]?.remedy ?? [], flags) === line
      return [
        `  ${printable(object)}`,
        `    expected  ${printable(expected)}`,
        `    found     ${printable(found)}`,
        `    repair    ${isRepeated ? 'the same command' : line}`,
      ]
    }),
    ...(rest > 0 ? [`  and ${rest} more`] : []),
  ]
}
