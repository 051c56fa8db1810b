import { chromium, type ElementHandle, type Page } from 'playwright-core'
import { whereIs } from '../../../scripts/debian.ts'
import { type Owner, temporaryDirectory } from '../../peers/owner.ts'

/** What a function that runs in the browser is given: any node. The DOM has no types here, where nothing else has one. */
export type InBrowser = ElementHandle extends ElementHandle<infer Node> ? Node : never

/** How a page is looked at. */
export interface Look {
  readonly width: number
  readonly scheme: 'light' | 'dark'
}

/** A page, with what it said and what it asked for since it was opened. */
export interface Opened {
  readonly page: Page
  /** Of its console, and errors that nobody caught. */
  readonly heard: readonly string[]
  /** The addresses of all requests. */
  readonly requests: readonly string[]
}

/**
 * Debian's Chromium, without a window and with an empty profile; it ends with its owner. It is cut off from every
 * network, loopback included, unless it is `online`.
 */
export async function startChromium(
  owner: Owner,
  { online = false } = {},
): Promise<(url: string, look: Look) => Promise<Opened>> {
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
    const heard: string[] = []
    const requests: string[] = []
    page.on('console', (message) => heard.push(`${message.type()}: ${message.text()}`))
    page.on('pageerror', (error) => heard.push(`error: ${error.message}`))
    page.on('request', (request) => requests.push(request.url()))
    await page.setViewportSize({ width, height: 800 })
    await page.emulateMedia({ colorScheme: scheme })
    await page.goto(url)
    return { page, heard, requests }
  }
}
