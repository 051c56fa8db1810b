import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { commands } from '../src/commands/declarations.ts'
import { expectationHead, expectationOptions } from '../src/commands/options.ts'
import { scenarioSchema } from '../src/drill/scenario/render.ts'
import { reportJsonSchema } from '../src/verify/cluster/report-schema.ts'
import { commandReference } from './command-reference.ts'
import { configurationReference, configurationSchema, documentSchema } from './configuration-reference.ts'
import { dashboardText, documentedMetrics } from './dashboard.ts'
import { withDrillTables } from './drill-tables.ts'

// usage: node scripts/generate-docs.ts [DIRECTORY]
// Writes the schemas, the reference pages, the tables of docs/drills.md and the dashboard below DIRECTORY, by default
// the repository. They follow from the commands, the options, the keys of scenarios, the invariants, the report of
// verify and docs/metrics.md.

function expectationSchema(): object {
  const options = Object.entries(expectationOptions)
  return documentSchema(expectationHead, 'What apiserver-bootstrap verify --expect demands of a cluster', options)
}

const root = join(import.meta.dirname, '..')
const directory = resolve(process.argv[2] ?? root)
const metrics = documentedMetrics(await readFile(join(root, 'docs/metrics.md'), 'utf8'))
const files = {
  'config/configuration.schema.json': `${JSON.stringify(configurationSchema(), undefined, 2)}\n`,
  'config/drill.schema.json': `${JSON.stringify(scenarioSchema(), undefined, 2)}\n`,
  'config/verify.schema.json': `${JSON.stringify(reportJsonSchema(), undefined, 2)}\n`,
  'config/verify-expectations.schema.json': `${JSON.stringify(expectationSchema(), undefined, 2)}\n`,
  'config/monitoring/dashboard.json': dashboardText(metrics),
  'docs/cli.md': commandReference(commands),
  'docs/configuration.md': configurationReference(),
  'docs/drills.md': await withDrillTables(await readFile(join(root, 'docs/drills.md'), 'utf8')),
}
for (const [path, text] of Object.entries(files)) {
  await mkdir(dirname(join(directory, path)), { recursive: true })
  await writeFile(join(directory, path), text)
}
