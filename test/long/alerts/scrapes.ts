import { readFileSync } from 'node:fs'
import { parse } from 'yaml'

export interface AlertRule {
  readonly alert: string
  readonly expr: string
}

/** The rule file inside config/monitoring/alerts.yaml. */
export function ruleFile(): { readonly groups: readonly { readonly rules: readonly AlertRule[] }[] } {
  return parse(readFileSync('config/monitoring/alerts.yaml', 'utf8')).spec
}

export const alertRules = ruleFile().groups.flatMap(({ rules }) => rules)

/** What Prometheus would store of the metrics that the rules need. One scrape reads every instance. */
export class Scrapes {
  /** Between two scrapes. */
  readonly intervalSeconds: number
  /** Unix time of the first one. */
  readonly startSeconds: number
  readonly #rules = alertRules.map(({ expr }) => expr).join(' ')
  /** By series, then by the number of the scrape. */
  readonly #samples = new Map<string, Map<number, string>>()
  #count = 0

  constructor({ intervalSeconds, startSeconds }: { readonly intervalSeconds: number; readonly startSeconds: number }) {
    this.intervalSeconds = intervalSeconds
    this.startSeconds = startSeconds
  }

  /** Adds what each instance exposes; an instance that is down exposes nothing. */
  add(exposed: ReadonlyMap<string, string>): void {
    for (const [instance, text] of exposed) {
      for (const [, name = '', labels = '', value = ''] of text.matchAll(/^(\w+)(?:\{(.*)\})? (\S+)$/gm)) {
        if (!this.#rules.includes(name)) continue
        const own = `job="apiserver-bootstrap",instance="${instance}"`
        const series = `${name}{${labels === '' ? own : `${own},${labels}`}}`
        const samples = this.#samples.get(series) ?? new Map<number, string>()
        this.#samples.set(series, samples.set(this.#count, value))
      }
    }
    this.#count++
  }

  /**
   * A test file for promtool. It expects that exactly these alerts have fired, and that some have these `$value`s at
   * the end.
   */
  expecting(
    fired: readonly string[],
    ruleFiles: readonly string[],
    values: Readonly<Record<string, number>> = {},
  ): unknown {
    const eval_time = `${(this.#count - 1) * this.intervalSeconds}s`
    const range = this.#count * this.intervalSeconds
    const interval = `${this.intervalSeconds}s`
    return {
      rule_files: ruleFiles,
      evaluation_interval: interval,
      tests: [
        {
          interval,
          start_timestamp: this.startSeconds,
          input_series: [...this.#samples].map(([series, samples]) => ({ series, values: this.#values(samples) })),
          promql_expr_test: [
            {
              expr: `group by (alertname) (count_over_time(ALERTS{alertstate="firing"}[${range + 1}s]))`,
              eval_time,
              exp_samples: fired.map((alertname) => ({ labels: `{alertname="${alertname}"}`, value: 1 })),
            },
            ...Object.entries(values).map(([name, value]) => ({
              expr: alertRules.find(({ alert }) => alert === name)?.expr,
              eval_time,
              exp_samples: [{ labels: '{job="apiserver-bootstrap"}', value }],
            })),
          ],
        },
      ],
    }
  }

  /** A series that an instance no longer exposes becomes stale; it does not keep its last value. */
  #values(samples: ReadonlyMap<number, string>): string {
    return Array.from(
      { length: this.#count },
      (_, scrape) => samples.get(scrape) ?? (samples.has(scrape - 1) ? 'stale' : '_'),
    ).join(' ')
  }
}
