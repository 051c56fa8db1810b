import type { Cause } from './refusal.ts'

/** Collects what is wrong with an object, field by field, in the words of apimachinery's `field.Error`. */
export class FieldErrors {
  readonly causes: Cause[] = []

  required(field: string, detail?: string): void {
    this.#add('FieldValueRequired', field, detail === undefined ? 'Required value' : `Required value: ${detail}`)
  }

  invalid(field: string, value: unknown, detail: string): void {
    this.#add('FieldValueInvalid', field, `Invalid value: ${JSON.stringify(value)}: ${detail}`)
  }

  notSupported(field: string, value: unknown, supported: readonly string[]): void {
    const values = supported.map((text) => JSON.stringify(text)).join(', ')
    this.#add(
      'FieldValueNotSupported',
      field,
      `Unsupported value: ${JSON.stringify(value)}: supported values: ${values}`,
    )
  }

  duplicate(field: string, value: unknown): void {
    this.#add('FieldValueDuplicate', field, `Duplicate value: ${JSON.stringify(value)}`)
  }

  forbidden(field: string, detail: string): void {
    this.#add('FieldValueForbidden', field, `Forbidden: ${detail}`)
  }

  tooMany(field: string, count: number, limit: number): void {
    this.#add('FieldValueTooMany', field, `Too many: ${count}: must have at most ${limit} items`)
  }

  #add(reason: string, field: string, message: string): void {
    this.causes.push({ reason, message, field })
  }
}
