import { attributesOf, escapeText } from '../drill/report/junit.ts'
import { printable } from '../runtime/errors.ts'
import { type CommandFlags, type Finding, shellLine } from '../verify/cluster/finding.ts'
import type { ReportDocument } from '../verify/cluster/report-schema.ts'
import type { CheckResult, VerifyReport } from '../verify/cluster/verify-cluster.ts'

/** The most findings of one check that the table and the GitHub annotations show. */
const MAX_SHOWN = 10

/**
 * A line for each check, then the findings of failed checks with their commands, and a summary. Ends with a newline.
 * Pure.
 */
export function renderTable(report: VerifyReport, flags: CommandFlags): string {
  const { results } = report
  const width = Math.max(...results.map(({ id }) => id.length))
  const lines = results.map((result) => `${result.id.padEnd(width)}  ${result.status.padEnd(7)}  ${shortOf(result)}`)
  const details = results.flatMap((result) => detailsOf(result, flags))
  return `${[...lines, ...details, '', summaryOf(report)].join('\n')}\n`
}

function summaryOf(report: VerifyReport): string {
  const { held, failed, skipped } = countsOf(report)
  return `${held} held, ${failed} failed, ${skipped} skipped`
}

function countsOf({ results }: VerifyReport): Readonly<Record<CheckResult['status'], number>> {
  const count = (status: CheckResult['status']): number => results.filter((one) => one.status === status).length
  return { held: count('held'), failed: count('failed'), skipped: count('skipped') }
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

/** One JSON document that conforms to config/verify.schema.json. Ends with a newline. Pure. */
export function renderJson(report: VerifyReport, flags: CommandFlags): string {
  const document: ReportDocument = {
    apiVersion: 'apiserver-bootstrap/v1alpha1',
    kind: 'VerifyReport',
    holds: report.holds,
    ...countsOf(report),
    checks: report.results.map((result) => {
      if (result.status !== 'failed') return result
      const findings = result.findings.map(({ remedy, ...finding }) => ({
        ...finding,
        repair: shellLine(remedy, flags),
      }))
      return { ...result, findings }
    }),
  }
  return `${JSON.stringify(document, undefined, 2)}\n`
}

/** JUnit XML with a case for each check. Ends with a newline. Pure. */
export function renderJunit(report: VerifyReport, flags: CommandFlags): string {
  const { failed: failures, skipped } = countsOf(report)
  const counts = { name: 'verify', tests: report.results.length, failures, errors: 0, skipped, time: '0.000' }
  const { skipped: _, ...totals } = counts
  const cases = report.results.flatMap((result): readonly string[] => {
    const attributes = attributesOf({ name: result.id, classname: 'verify', time: '0.000' })
    if (result.status === 'held') return [`    <testcase${attributes}/>`]
    return [`    <testcase${attributes}>`, `      ${junitResult(result, flags)}`, '    </testcase>']
  })
  return `${[
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites${attributesOf(totals)}>`,
    `  <testsuite${attributesOf(counts)}>`,
    ...cases,
    '  </testsuite>',
    '</testsuites>',
  ].join('\n')}\n`
}

function junitResult(result: CheckResult, flags: CommandFlags): string {
  if (result.status === 'skipped') return `<skipped${attributesOf({ message: result.reason })}/>`
  const findings = result.status === 'failed' ? result.findings : []
  const detail = findings.map((finding) => textOf(finding, flags).join('\n')).join('\n')
  return `<failure${attributesOf({ message: result.title, type: result.id })}>${escapeText(detail)}</failure>`
}

/**
 * Workflow commands of GitHub Actions, an error for each shown finding and a notice for each skipped check, and a
 * summary. Ends with a newline. Pure.
 */
export function renderGithub(report: VerifyReport, flags: CommandFlags): string {
  const lines = report.results.flatMap((result) => {
    if (result.status === 'skipped') return [workflowCommand('notice', `${result.id} skipped`, result.reason)]
    if (result.status === 'held') return []
    const findings = result.findings.slice(0, MAX_SHOWN)
    return findings.map((finding) =>
      workflowCommand('error', `${result.id} failed`, [...textOf(finding, flags), result.why].join('\n')),
    )
  })
  return `${[...lines, summaryOf(report)].join('\n')}\n`
}

function textOf({ object, expected, found, remedy }: Finding, flags: CommandFlags): readonly string[] {
  return [`${object}: expected ${expected}, found ${found}`, shellLine(remedy, flags)].map(printable)
}

/**
 * A workflow command is one line, so line breaks are escaped:
 * https://docs.github.com/actions/reference/workflow-commands-for-github-actions
 */
function workflowCommand(command: 'error' | 'notice', title: string, message: string): string {
  const data = message.replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A')
  return `::${command} title=${title}::${data}`
}
