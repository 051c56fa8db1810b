import { invariantNames, sentenceOf } from '../../verify/invariants.ts'
import type { DrillReport, Figures, VariantReport } from './report.ts'

/**
 * The report as JUnit XML, with one suite per variant and one case per invariant. The figures are properties of the
 * suite. Ends with a newline.
 */
export function renderJunit(report: DrillReport): string {
  const suites = report.variants.map((variant) => suite(report, variant))
  const attributes = attributesOf({
    name: report.scenario.name,
    tests: sum(suites, ({ tests }) => tests),
    failures: sum(suites, ({ failures }) => failures),
    errors: 0,
    time: sum(suites, ({ seconds }) => seconds).toFixed(3),
  })
  const lines = suites.flatMap((one) => one.lines)
  return [`<?xml version="1.0" encoding="UTF-8"?>`, `<testsuites${attributes}>`, ...lines, '</testsuites>', ''].join(
    '\n',
  )
}

interface Suite {
  readonly tests: number
  readonly failures: number
  /** The duration of the scenario, times the number of runs. */
  readonly seconds: number
  readonly lines: readonly string[]
}

function suite(
  { scenario, command, target, seed, unchecked, idle, hostLate }: DrillReport,
  { name, runs, figures }: VariantReport,
): Suite {
  const violations = runs.flatMap((run) => run.violations.map((violation) => ({ ...violation, seed: run.seed })))
  const names = [...new Set<string>([...invariantNames, ...violations.map(({ invariant }) => invariant)])]
  const failed = new Set<string>(violations.map(({ invariant }) => invariant)).size
  const seconds = (runs.length * scenario.durationMs) / 1000
  const notes = Object.entries({ unchecked, idle, hostLate }).flatMap(([key, value]) =>
    value === undefined ? [] : [[key, value] as const],
  )
  const properties = [['target', target], ['seed', seed], ['command', command], ...notes, ...flatten(figures)] as const
  const cases = names.flatMap((invariant) => {
    const own = violations.filter((violation) => violation.invariant === invariant)
    const attributes = attributesOf({ name: invariant, classname: `${scenario.name}.${name}`, time: '0.000' })
    if (own.length === 0) return [`    <testcase${attributes}/>`]
    const detail = own.map(({ atMs, seed, detail }) => `+${(atMs / 1000).toFixed(3)}s, seed ${seed}: ${detail}`)
    return [
      `    <testcase${attributes}>`,
      `      <failure${attributesOf({ message: sentenceOf(invariant), type: invariant })}>${escapeText(detail.join('\n'))}</failure>`,
      '    </testcase>',
    ]
  })
  const counts = { tests: names.length, failures: failed, errors: 0, skipped: 0 }
  return {
    ...counts,
    seconds,
    lines: [
      `  <testsuite${attributesOf({ name, ...counts, time: seconds.toFixed(3) })}>`,
      '    <properties>',
      ...properties.map(([key, value]) => `      <property${attributesOf({ name: key, value })}/>`),
      '    </properties>',
      ...cases,
      '  </testsuite>',
    ],
  }
}

/** Every number among the figures, by its path, such as `timeToRemove.p50Ms`. */
function flatten(figures: Figures): readonly (readonly [string, number])[] {
  return Object.entries(figures).flatMap(([name, value]) =>
    typeof value === 'number'
      ? [[name, value] as const]
      : Object.entries(value).flatMap(([part, own]) =>
          typeof own === 'number' ? [[`${name}.${part}`, own] as const] : [],
        ),
  )
}

/** Attributes of an XML element, each with a space before it. */
export function attributesOf(attributes: Readonly<Record<string, string | number>>): string {
  return Object.entries(attributes)
    .map(([name, value]) => ` ${name}="${escapeAttribute(`${value}`)}"`)
    .join('')
}

export function escapeText(text: string): string {
  return withoutControls(text).replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

/** Writes line ends and tabs as references, because a parser would turn them into spaces. */
function escapeAttribute(text: string): string {
  return escapeText(text)
    .replaceAll('"', '&quot;')
    .replaceAll('\t', '&#9;')
    .replaceAll('\n', '&#10;')
    .replaceAll('\r', '&#13;')
}

/** Replaces the characters that XML 1.0 does not allow: most control characters, lone surrogates, U+FFFE and U+FFFF. */
function withoutControls(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern must match them
  return text.toWellFormed().replaceAll(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, '\ufffd')
}

function sum<Each>(all: readonly Each[], of: (one: Each) => number): number {
  return all.reduce((total, one) => total + of(one), 0)
}
