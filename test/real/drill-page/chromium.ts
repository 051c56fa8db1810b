import { chromium, type ElementHandle, type Page } from 'playwright-core'
import { whereIs } from '../../../scripts/debian.ts'
import { type Owner, temporaryDirectory } from '../../peers/owner.ts'

/**
 * The argument of a function that runs in the browser: any node. It is untyped, because nothing else here has a DOM,
 * and so the project has no types for it.
 */
export type InBrowser = ElementHandle extends ElementHandle<infer Node> ? Node : never

/** How a page is displayed. */
export interface Display {
  readonly width: number
  readonly scheme: 'light' | 'dark'
}

/** A page, with its messages and its requests since it was opened. */
export interface Opened {
  readonly page: Page
  /** The messages of its console, and uncaught errors. */
  readonly messages: readonly string[]
  /** The addresses of all requests. */
  readonly requests: readonly string[]
}

/**
 * Starts Debian's Chromium, headless and with an empty profile, until its owner closes. Unless it is `online`, it
 * reaches no network, not even loopback.
 */
export async function startChromium(
  owner: Owner,
  { online = false } = {},
): Promise<(url: string, display: Display) => Promise<Opened>> {
  const executablePath = await whereIs('chromium')
  if (executablePath === undefined) throw new Error('chromium is not on the PATH: npm run peers')
  const home = temporaryDirectory(owner, 'chromium')
  const context = await chromium.launchPersistentContext(home, {
    executablePath,
    offline: !online,
    args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking'],
    env: { PATH: process.env.PATH ?? '', HOME: home, TMPDIR: home },
  })
  owner.after(() => context.close())
  return async (url, { width, scheme }) => {
    const page = await context.newPage()
    const messages: string[] = []
    const requests: string[] = []
    page.on('console', (message) => messages.push(`${message.type()}: ${message.text()}`))
    page.on('pageerror', (error) => messages.push(`error: ${error.message}`))
    page.on('request', (request) => requests.push(request.url()))
    await page.setViewportSize({ width, height: 800 })
    await page.emulateMedia({ colorScheme: scheme })
    await page.goto(url)
    return { page, messages, requests }
  }
}
