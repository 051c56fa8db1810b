/**
 * A type of `@kubernetes/client-node` as it is on the wire: dates are RFC 3339 strings, everything is readonly.
 * Objects are carried whole: fields that the type does not know survive every read, copy and write.
 */
export type Json<T> = 0 extends 1 & T
  ? unknown
  : T extends Date
    ? string
    : T extends readonly (infer Item)[]
      ? readonly Json<Item>[]
      : T extends object
        ? { readonly [Key in keyof T]: Json<T[Key]> }
        : T

/** What every stored object has. */
export interface KubeObject {
  readonly apiVersion?: string | undefined
  readonly kind?: string | undefined
  readonly metadata?: ObjectMeta | undefined
}

/** The metadata that this program reads; the rest is carried along. */
export interface ObjectMeta {
  readonly name?: string | undefined
  readonly generateName?: string | undefined
  readonly namespace?: string | undefined
  readonly uid?: string | undefined
  readonly resourceVersion?: string | undefined
  readonly generation?: number | undefined
  readonly creationTimestamp?: string | undefined
  readonly deletionTimestamp?: string | undefined
  readonly labels?: Readonly<Record<string, string>> | undefined
  readonly annotations?: Readonly<Record<string, string>> | undefined
  readonly finalizers?: readonly string[] | undefined
  readonly ownerReferences?: readonly unknown[] | undefined
  readonly managedFields?: readonly unknown[] | undefined
}

/** A list as the server answers it. `resourceVersion` is where a watch goes on; `continue` is set while pages remain. */
export interface KubeList<T> {
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string | undefined }
  readonly items: readonly T[]
}
