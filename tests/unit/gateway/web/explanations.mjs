// explanations: print what pure modules of the web view return. Run: node explanations.mjs FOLDER < QUESTION

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const load = name => import(pathToFileURL(`${process.argv[2]}/js/${name}.js`).href);
const { indent, verifyHistory } = await load("inspector");
const { changedLimits, decisionIn, formOf, receiptLines, timeLeft, valueOf, whyNot } = await load("controls");
const { money } = await load("format");
const { addStep, newTask } = await load("task_state");
const { actionsOf, confirmed, joined, partsOf, requestOf } = await load("actions");

const OPERATIONS = {
  verify: pages => verifyHistory("t", async path => pages[Number(/start=(\d+)/.exec(path)[1])]),
  verifyInPlainHttp: async pages => {
    Object.defineProperty(crypto, "subtle", { value: undefined, configurable: true });
    const problem = await OPERATIONS.verify(pages).catch(({ message }) => message);
    delete crypto.subtle;
    return problem;
  },
  indent,
  plan: schema => formOf(schema),
  form: ({ schema, value }) => ({ value: valueOf(formOf(schema, value)) }),
  mistake({ schema, text, value }) {
    try {
      return { value: valueOf({ ...formOf(schema, value), ...(text != null && { text }) }) };
    } catch ({ message }) {
      return { problem: message };
    }
  },
  limits: ({ now, wanted }) => changedLimits(now, wanted),
  whyNot: ({ action, status, scopes }) => whyNot(action, status, scope => scopes.includes(scope)),
  receipt: receipt => receiptLines(receipt),
  actions: document => actionsOf(document),
  actionForms: document => Object.fromEntries(Object.entries(actionsOf(document)).map(([name, { schema }]) => [name, formOf(schema)])),
  request: ({ action, values, key }) => requestOf(action, values, key),
  joined: pages => pages.reduce(joined, null),
  parts: answer => partsOf(answer),
  confirmed,
  money: amounts => amounts.map(money),
  failures(steps) {
    const task = newTask("t");
    steps.forEach(step => addStep(task, step));
    return [...task.failures];
  },
  left: ({ reason, now }) => timeLeft({ reason }, now),
  decision: ({ step, call }) => decisionIn(step, call),
};

const answers = [];
for (const [name, question] of JSON.parse(readFileSync(0, "utf8"))) answers.push((await OPERATIONS[name](question)) ?? null);
console.log(JSON.stringify(answers));
