/** How the users of a cluster reach its server. */
export interface UserApi {
  /** Resolves with any answer. */
  send(
    method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE',
    path: string,
    body?: unknown,
    contentType?: string,
  ): Promise<{ readonly status: number; readonly body: unknown }>
}

/** The requests of users to the server, in one namespace. */
export class UserRequests {
  readonly #api: UserApi
  readonly #namespace: string

  constructor(api: UserApi, namespace: string) {
    this.#api = api
    this.#namespace = namespace
  }

  path(plural: string, name?: string): string {
    return `/api/v1/namespaces/${this.#namespace}/${plural}${name === undefined ? '' : `/${name}`}`
  }

  /** The object at a path. */
  async get(path: string): Promise<unknown> {
    const { status, body } = await this.#api.send('GET', path)
    if (status !== 200) throw new Error(`GET ${path}: ${status}`)
    return body
  }

  patch(path: string, body: unknown): Promise<boolean> {
    return this.did('PATCH', path, body, 'application/merge-patch+json')
  }

  /**
   * Sends a request. Resolves with whether the server carried it out: an object may be gone, or exist already. Rejects
   * if the request is invalid.
   */
  async did(
    method: 'POST' | 'PUT' | 'PATCH' | 'DELETE',
    path: string,
    body?: unknown,
    contentType?: string,
  ): Promise<boolean> {
    const { status, body: answer } = await this.#api.send(method, path, body, contentType)
    if (status === 400 || status === 415 || status === 422) {
      throw new Error(`${method} ${path} ${JSON.stringify(body)}: ${JSON.stringify(answer)}`)
    }
    return status < 300
  }
}
