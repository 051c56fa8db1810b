import * as z from 'zod/mini'
import { checkIds } from './check-ids.ts'

const text = z.string()
const head = { id: z.enum(checkIds), title: text, why: text }
const finding = z.strictObject({ object: text, expected: text, found: text, repair: text })

/** The report as `--output json` prints it. */
export const reportSchema = z.strictObject({
  apiVersion: z.literal('apiserver-bootstrap/v1alpha1'),
  kind: z.literal('VerifyReport'),
  holds: z.boolean(),
  held: z.int(),
  failed: z.int(),
  skipped: z.int(),
  checks: z.array(
    z.discriminatedUnion('status', [
      z.strictObject({ ...head, status: z.literal('held'), found: text }),
      z.strictObject({ ...head, status: z.literal('failed'), findings: z.array(finding) }),
      z.strictObject({ ...head, status: z.literal('skipped'), reason: text }),
    ]),
  ),
})

export type ReportDocument = z.output<typeof reportSchema>

/** The published JSON Schema of the report. */
export function reportJsonSchema(): object {
  return { title: 'Report of apiserver-bootstrap verify', ...z.toJSONSchema(reportSchema) }
}
