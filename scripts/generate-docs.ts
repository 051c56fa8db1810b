import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { expectationHead, expectationOptions } from '../src/commands/options.ts'
import { configurationReference, configurationSchema, documentSchema } from '../src/config/reference.ts'
import { scenarioSchema } from '../src/drill/scenario/render.ts'
import { reportJsonSchema } from '../src/verify/cluster/report-schema.ts'

// usage: node scripts/generate-docs.ts [DIRECTORY]: writes what is derived from the options, the keys of scenarios and the report of verify, below DIRECTORY or the repository.

function expectationSchema(): object {
  const options = Object.entries(expectationOptions)
  return documentSchema(expectationHead, 'What apiserver-bootstrap verify --expect demands of a cluster', options)
}

const directory = resolve(process.argv[2] ?? join(import.meta.dirname, '..'))
const files = {
  'config/configuration.schema.json': `${JSON.stringify(configurationSchema(), undefined, 2)}\n`,
  'config/drill.schema.json': `${JSON.stringify(scenarioSchema(), undefined, 2)}\n`,
  'config/verify.schema.json': `${JSON.stringify(reportJsonSchema(), undefined, 2)}\n`,
  'config/verify-expectations.schema.json': `${JSON.stringify(expectationSchema(), undefined, 2)}\n`,
  'docs/configuration.md': configurationReference(),
}
for (const [path, text] of Object.entries(files)) {
  await mkdir(dirname(join(directory, path)), { recursive: true })
  await writeFile(join(directory, path), text)
}
